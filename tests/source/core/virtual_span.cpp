// SPDX-License-Identifier: Apache-2.0
#include <vram/source/core/virtual_span.hpp> // first: the header stands alone

#include "../../doubles/bombing.hpp"
#include "../../doubles/small_pages.hpp"

#include <vram/sim/machine/sim_virtual_memory.hpp>
#include <vram/sim/sim.hpp>

#include <algorithm> // min
#include <random>    // minstd_rand

using namespace vram;
using namespace vram::detail;
using doubles::small_page;

template class vram::detail::virtual_span<sim_virtual_memory>;

namespace {

using sim_span = virtual_span<sim_virtual_memory>;

sim_span sixteen_pages() { return {sim_virtual_memory{}, 16 * small_page, small_page}; }

/// Which pages have memory, as text: "xx--".
std::string mapped_pattern(sim_span const& span, std::size_t count) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) { text += span.mapped(i) ? 'x' : '-'; }
    return text;
}

/// Requires that every backed page has its own memory: each keeps the written value.
void check_usable(sim_span const& span) {
    sim_stream s;
    for (std::size_t i = 0; i < span.pages(); ++i) {
        if (span.mapped(i)) { sim_fill(s, span.address(i), std::byte(i + 1), small_page); }
    }
    s.synchronize();
    for (std::size_t i = 0; i < span.pages(); ++i) {
        if (span.mapped(i)) {
            CHECK(*sim_view(static_cast<std::byte*>(span.address(i))) == std::byte(i + 1));
        }
    }
}

} // namespace

TEST_CASE("virtual_span: unbacked pages get memory, and access is set per range") {
    sim_node node{doubles::small_pages()};
    sim_span span = sixteen_pages();
    CHECK(span.pages() == 16);
    CHECK(span.page() == small_page);
    span.fill(1, 3);
    CHECK(node.faults().calls(sim_call_kind::set_access) == 1);
    span.fill(0, 5); // two runs around the backed pages
    CHECK(mapped_pattern(span, 6) == "xxxxx-");
    CHECK(span.held() == 5);
    CHECK(span.calls() == 5);
    CHECK(node.figures().used == 5 * small_page);
    CHECK(node.faults().calls(sim_call_kind::create) == 5);
    CHECK(node.faults().calls(sim_call_kind::set_access) == 3);
    span.fill(0, 5); // nothing to do
    CHECK(node.faults().calls(sim_call_kind::map) == 5);
    CHECK(node.faults().calls(sim_call_kind::set_access) == 3);
    check_usable(span);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_span: dropped memory is freed, except for the requested number of spare pages") {
    sim_node node{doubles::small_pages()};
    sim_span span = sixteen_pages();
    span.fill(0, 6);
    CHECK(span.drop(4, 8, 0) == 2);
    CHECK(span.held() == 4);
    CHECK(span.drop(0, 2, 1) == 2);
    CHECK(mapped_pattern(span, 6) == "--xx--");
    CHECK(span.spares() == 1);
    CHECK(node.figures().used == 3 * small_page);
    auto const made = node.faults().calls(sim_call_kind::create);
    span.fill(8, 9); // the spare
    CHECK(node.faults().calls(sim_call_kind::create) == made);
    CHECK(span.spares() == 0);
    span.drop(8, 9, 5);
    CHECK(span.trim(1) == 0);
    CHECK(span.trim(0) == 1);
    CHECK(node.figures().used == 2 * small_page);
    check_usable(span);
}

TEST_CASE("virtual_span: memory moves to other pages together with its contents") {
    sim_node node{doubles::small_pages(8)};
    sim_span span = sixteen_pages();
    span.fill(0, 8); // all that the device has
    check_usable(span);
    span.drop(2, 3, 0);
    auto const made = node.faults().calls(sim_call_kind::create);
    CHECK(span.move(0, 4, 8, 16) == 3);
    CHECK(mapped_pattern(span, 16) == "----xxxxxxx-----");
    CHECK(*sim_view(static_cast<std::byte*>(span.address(8))) == std::byte{1});
    CHECK(*sim_view(static_cast<std::byte*>(span.address(9))) == std::byte{2});
    CHECK(*sim_view(static_cast<std::byte*>(span.address(10))) == std::byte{4});
    // No memory was created, and none freed except the dropped page.
    CHECK(node.faults().calls(sim_call_kind::create) == made);
    CHECK(node.faults().calls(sim_call_kind::free) == 1);
    CHECK(span.move(4, 8, 8, 12) == 1); // only the last page has no memory
    CHECK(mapped_pattern(span, 12) == "-----xxxxxxx");
    CHECK(span.move(0, 4, 12, 16) == 0); // nothing there to move
    check_usable(span);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_span: a move takes its memory along") {
    sim_node node{doubles::small_pages()};
    {
        sim_span first = sixteen_pages();
        first.fill(0, 2);
        first.drop(1, 2, 1);
        sim_span second{std::move(first)};
        CHECK(first.pages() == 0);
        CHECK(first.held() == 0);
        CHECK(second.held() == 2);
        CHECK(second.spares() == 1);
        check_usable(second);
    }
    CHECK(node.figures().used == 0);
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_span: a failure of any driver call leaves memory in its old or its new place") {
    for (std::uint64_t const times : {1, 2, 3, 1000}) {
        CAPTURE(times);
        auto const make = [] {
            sim_span span = sixteen_pages();
            span.fill(1, 3);
            span.fill(6, 8);
            span.drop(7, 8, 1); // "-xx---x-" and a spare
            return span;
        };
        unsigned const thrown = doubles::walk_page_calls(
            make, [](sim_span& span) { span.fill(0, 6); },
            [&](sim_span& span, bool failed) {
                CHECK(mapped_pattern(span, 8) == (failed ? "-xx---x-" : "xxxxxxx-"));
                if (times == 1) { CHECK(span.held() == (failed ? 4 : 7)); }
                span.trim(0); // retries the unmap that failed
                CHECK(span.spares() == 0);
                CHECK(span.held() == (failed ? 3 : 7));
                span.fill(0, 8);
                check_usable(span);
            },
            times);
        CHECK(thrown == 4 + 3 + 2); // map, create; access to two runs
        doubles::walk_page_calls(
            make, [](sim_span& span) { span.drop(0, 16, 0); },
            [&](sim_span& span, bool failed) {
                CHECK_FALSE(failed);
                span.trim(0);
                CHECK(span.held() == 0);
                CHECK(mapped_pattern(span, 8) == "--------");
            },
            times);
        std::size_t moved = 0;
        doubles::walk_page_calls(
            make, [&](sim_span& span) { moved = span.move(0, 8, 3, 6); },
            [&](sim_span& span, bool failed) {
                CHECK_FALSE(failed);
                CHECK(span.held() == 4); // after any outcome
                auto const now = mapped_pattern(span, 8);
                CHECK(static_cast<std::size_t>(std::count(now.begin(), now.begin() + 8, 'x')) <= 3);
                CHECK(static_cast<std::size_t>(std::count(now.begin() + 3, now.begin() + 6, 'x')) ==
                      moved);
                if (times == 1) {
                    CHECK(std::count(now.begin(), now.end(), 'x') == 3); // none lost its place
                }
                check_usable(span);
                span.trim(0);
                span.fill(0, 8);
                CHECK(span.held() == 8);
                check_usable(span);
            },
            times);
    }
}

TEST_CASE("virtual_span: memory that cannot be unmapped at the end is reported, and counted once") {
    doubles::mishaps const told;
    sim_node               node{doubles::small_pages()};
    {
        sim_span span = sixteen_pages();
        span.fill(0, 2);
        node.faults().at(sim_call_kind::unmap, 1, {}, 100);
    }
    CHECK(told.count(error_kind::platform_error) == 3); // two pages and their addresses
    CHECK(node.figures().used == 2 * small_page);
}

TEST_CASE("virtual_span: memory that returns to its previous address costs no driver call") {
    sim_node node{doubles::small_pages()};
    sim_span span = sixteen_pages();
    span.fill(0, 4);
    check_usable(span);
    CHECK(span.move(0, 4, 8, 12) == 4);
    CHECK(node.faults().calls(sim_call_kind::unmap) == 0);
    CHECK(span.moved_to(0) == 8);
    CHECK(span.moved_to(3) == 11);
    CHECK(span.moved_to(8) == span.nowhere); // it is there
    CHECK(span.moved_to(5) == span.nowhere); // it never was
    std::uint64_t const before = doubles::page_calls(node);
    CHECK(span.move(10, 12, 2, 4) == 2);
    CHECK(span.move(8, 9, 0, 1) == 1);
    CHECK(doubles::page_calls(node) == before);
    CHECK(mapped_pattern(span, 12) == "x-xx-----x--");
    CHECK(span.moved_to(11) == 3);
    CHECK(*sim_view(static_cast<std::byte*>(span.address(2))) == std::byte{3});
    check_usable(span);
    CHECK(span.move(3, 4, 8, 9) == 1); // not the memory that page 8 had before
    CHECK(node.faults().calls(sim_call_kind::unmap) == 1);
    CHECK(span.moved_to(3) == 8);
    check_usable(span);
    span.drop(8, 9, 0); // which unmaps it at both places
    CHECK(span.moved_to(3) == span.nowhere);
    CHECK(span.held() == 3);
    CHECK(node.figures().used == 3 * small_page);
    span.fill(0, 16);
    check_usable(span);
    CHECK(node.reports().empty());
}

TEST_CASE(
    "virtual_span: a page that gets its own memory back from the spares costs no driver call") {
    sim_node node{doubles::small_pages()};
    sim_span span = sixteen_pages();
    span.fill(0, 4);
    CHECK(span.drop(0, 3, 3) == 3);
    CHECK(span.spares() == 3);
    CHECK(span.moved_to(0) == span.nowhere);
    std::uint64_t const before = doubles::page_calls(node);
    span.fill(1, 3);
    CHECK(doubles::page_calls(node) == before);
    CHECK(mapped_pattern(span, 4) == "-xxx");
    check_usable(span);
    span.fill(8, 9); // uses the remaining piece, which page 0 loses
    CHECK(span.moved_to(0) == 8);
    CHECK(node.faults().calls(sim_call_kind::create) == 4);
    span.fill(0, 1);
    CHECK(node.faults().calls(sim_call_kind::create) == 5);
    check_usable(span);
}

TEST_CASE("virtual_span: memory without access is not taken for memory that returned") {
    sim_node node{doubles::small_pages()};
    sim_span span = sixteen_pages();
    span.fill(0, 2);
    node.faults().at(sim_call_kind::set_access, 1);
    node.faults().at(sim_call_kind::unmap, 1); // the second is unmapped again
    CHECK(span.move(0, 2, 8, 10) == 0);
    CHECK(mapped_pattern(span, 10) == "xx--------");
    CHECK(span.moved_to(8) == 0); // still mapped there, but not usable
    CHECK(span.moved_to(9) == span.nowhere);
    CHECK(span.move(0, 2, 8, 10) == 2);
    CHECK(mapped_pattern(span, 10) == "--------xx");
    check_usable(span);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_span: a mapping that cannot be removed is reported, and removed later") {
    doubles::mishaps const told;
    sim_node               node{doubles::small_pages()};
    sim_span               span = sixteen_pages();
    span.fill(0, 2);
    span.move(0, 2, 8, 10);
    node.faults().at(sim_call_kind::unmap, 1);
    CHECK(span.drop(8, 10, 0) == 1);
    CHECK(told.count(error_kind::platform_error) == 1);
    CHECK(mapped_pattern(span, 10) == "----------");
    CHECK(span.held() == 1);
    CHECK(span.spares() == 1);
    CHECK(span.trim(0) == 1);
    CHECK(node.figures().used == 0);
    span.fill(0, 2);
    check_usable(span);
}

TEST_CASE("virtual_span: after random moves, each page keeps its contents") {
    std::minstd_rand random{7};
    sim_node         node{doubles::small_pages()};
    sim_span         span = sixteen_pages();
    for (int step = 0; step < 2000; ++step) {
        std::size_t const from = random() % 16, to = random() % 16, n = random() % 5;
        std::size_t const from_end = std::min<std::size_t>(from + n, 16);
        std::size_t const to_end   = std::min<std::size_t>(to + n, 16);
        std::size_t const held     = span.held();
        switch (random() % 4) {
        case 0: span.fill(to, to_end); break;
        case 1: span.drop(from, from_end, random() % 3); break;
        default: span.move(from, from_end, to, to_end); CHECK(span.held() == held);
        }
        for (std::size_t i = 0; i < 16; ++i) {
            if (span.moved_to(i) != span.nowhere) { CHECK(span.mapped(span.moved_to(i))); }
        }
        if (step % 16 == 0) { check_usable(span); }
        CHECK(span.held() * small_page == node.figures().used);
    }
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_span: a failing host allocation loses nothing") {
    for (std::uint64_t n = 1, hit = 1; hit != 0; ++n) {
        sim_node node{doubles::small_pages()};
        {
            sim_span span = sixteen_pages();
            span.fill(0, 2);
            {
                doubles::bombing armed{n};
                try {
                    span.fill(0, 6);
                    span.move(0, 4, 8, 12);
                } catch (std::bad_alloc const&) {}
                hit = armed.defuse() ? 1 : 0;
            }
            CHECK(span.held() * small_page == node.figures().used);
            span.trim(0);
            span.fill(0, 16);
            check_usable(span);
        }
        CHECK(node.figures().used == 0);
        CHECK(node.reports().empty());
    }
}
