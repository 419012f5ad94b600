// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/paged_heap.hpp> // first: the header stands alone

#include "../../doubles/at.hpp"
#include "../../doubles/bombing.hpp"
#include "../../doubles/mishaps.hpp"
#include "../heap_under_lock.hpp"

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;
using doubles::at;

template class vram::detail::paged_heap<sim_platform>;

namespace {

constexpr std::size_t page          = 1 << 16;
constexpr auto        behind        = [](block const& b) { return b.bytes; };
constexpr auto        lacks_nothing = [](std::uintptr_t, std::uintptr_t) { return std::size_t{0}; };
constexpr auto        wanted        = [](block const&) { return true; };

/// A heap of sixteen pages of addresses. Nothing looks at the memory.
struct sixteen_pages : tests::heap_under_lock<paged_heap<sim_platform>> {
    sixteen_pages() : heap_under_lock{event_policy::lazy, false} {
        auto const held = lock.hold();
        heap.add(at(base), 16 * page, 256, nullptr, nullptr);
    }
    template <class Missing>
    block* take_unbacked(sim_stream_view s, std::size_t bytes, Missing const& missing) {
        auto held = lock.hold();
        return heap.take_unbacked({.asked = bytes, .on = &s}, held,
                                  [&](block const& b) -> block_heap::judged {
                                      if (b.bytes < bytes) { return {}; }
                                      return {b.address, missing(b.address, b.address + bytes)};
                                  });
    }
    /// The free blocks that a stream may have at once.
    std::vector<block*> ready(sim_stream_view const* on, std::size_t least) {
        std::vector<block*> out;
        auto const          held = lock.hold();
        heap.for_each_ready(page, least, heap.price_for(on), [&](block* b) { out.push_back(b); });
        return out;
    }
    std::vector<block*> set_aside(sim_stream_view const* on) {
        std::vector<block*> out;
        auto const          held = lock.hold();
        heap.set_aside(page, heap.price_for(on), wanted, [&](block* b) {
            out.push_back(b);
            return true;
        });
        return out;
    }
    void give_again(block* b, bool unbacked) {
        auto const held = lock.hold();
        heap.give_again(b, unbacked);
    }
    [[nodiscard]] memory_usage usage() {
        auto const held = lock.hold();
        return heap.usage(behind);
    }

    static constexpr std::uintptr_t base = 0x1000000;
};

} // namespace

TEST_CASE("paged_heap: of the usable blocks, the one with the fewest unbacked bytes is taken") {
    sixteen_pages      f;
    sim_stream         s;
    std::size_t const  sizes[] = {2 * page, page, 3 * page, page};
    std::vector<void*> row; // two holes, with a live block behind each
    for (std::size_t const bytes : sizes) { row.push_back(f.take(s, bytes)); }
    f.give(s, row[0], sizes[0]);
    f.give(s, row[2], sizes[2]);
    (void)f.usage(); // coalesces cached blocks
    for (std::size_t const fuller : {0U, 2U}) {
        auto const missing = [&](std::uintptr_t from, std::uintptr_t) {
            return at(from) == row[fuller] ? std::size_t{100} : page;
        };
        block* const b = f.take_unbacked(s, 2 * page, missing);
        REQUIRE(b != nullptr);
        CHECK(b->pointer() == row[fuller]);
        f.heap.return_unbacked(b, nullptr, 0);
    }
    f.give(s, row[1], sizes[1]);
    f.give(s, row[3], sizes[3]);
    CHECK(f.usage().largest_free == 16 * page);
}

TEST_CASE("paged_heap: an unbacked block counts as live once it is backed") {
    sixteen_pages f;
    sim_stream    s;
    block* const  b = f.take_unbacked(s, 3 * page, lacks_nothing);
    REQUIRE(b != nullptr);
    CHECK(b->now == block::state::reserved);
    CHECK(f.heap.live(b->pointer(), 3 * page) == nullptr); // it is not live
    CHECK(f.usage().live == 0);
    CHECK(f.usage().requested == 0);
    CHECK(f.usage().allocations == 0);
    CHECK(f.usage().peak_live == 0);
    void* const p = f.heap.filled(b);
    CHECK(p == at(sixteen_pages::base));
    CHECK(f.heap.live(p, 3 * page) == b);
    CHECK(f.usage().live == 3 * page);
    CHECK(f.usage().requested == 3 * page);
    CHECK(f.usage().allocations == 1);
    CHECK(f.usage().peak_live == 3 * page);
    f.give(s, p, 3 * page);
    CHECK(f.usage().live == 0);
    CHECK(f.take_unbacked(s, 17 * page, lacks_nothing) == nullptr);
}

TEST_CASE("paged_heap: an unbacked block that is returned is not handed out as a backed one") {
    sixteen_pages f;
    sim_stream    s;
    block* const  b = f.take_unbacked(s, 2 * page, lacks_nothing);
    REQUIRE(b != nullptr);
    f.heap.return_unbacked(b, nullptr, 0);
    CHECK(f.take(s, 2 * page) == nullptr); // the end is unbacked as a whole
    block* const again = f.take_unbacked(s, 2 * page, lacks_nothing);
    REQUIRE(again != nullptr);
    CHECK(f.heap.filled(again) == at(sixteen_pages::base));
    f.give(s, again->pointer(), 2 * page);
}

TEST_CASE("paged_heap: ready memory is used before other memory of the same block") {
    for (bool const shared : {false, true}) {
        sixteen_pages f;
        sim_stream    s, other;
        block* const  b = f.take_unbacked(s, page, lacks_nothing);
        REQUIRE(b != nullptr);
        if (shared) { // the page after it becomes available together with it
            auto const held = f.lock.hold();
            CHECK(f.heap.share(b, b->address, b->address + 2 * page, s));
        }
        void* const p = f.heap.filled(b);
        sim_launch(s, {.name = "earlier", .duration = 1ms});
        block* const next = f.take_unbacked(other, page, lacks_nothing);
        REQUIRE(next != nullptr);
        CHECK(next->address == sixteen_pages::base + page);
        CHECK(f.usage().waits == (shared ? 1 : 0));
        f.heap.return_unbacked(next, nullptr, 0);
        f.give(s, p, page);
    }
}

TEST_CASE("paged_heap: another stream gets an unbacked block with a stream's memory after a wait") {
    for (bool const in_use : {false, true}) {
        sixteen_pages         f;
        sim_stream            s, other;
        sim_stream_view const view = s;
        block* const          b    = f.take_unbacked(s, page, lacks_nothing);
        REQUIRE(b != nullptr);
        f.heap.return_unbacked(b, in_use ? &view : nullptr, 0);
        sim_launch(s, {.name = "earlier", .duration = 1ms});
        block* const next = f.take_unbacked(other, page, lacks_nothing);
        REQUIRE(next != nullptr);
        CHECK(f.usage().waits == (in_use ? 1 : 0));
        f.heap.return_unbacked(next, nullptr, 0);
    }
}

TEST_CASE("paged_heap: memory of a stream that cannot be waited for stays reserved") {
    doubles::mishaps const told;
    sixteen_pages          f;
    sim_stream             s, unknown;
    sim_stream_view const  view = unknown;
    block* const           b    = f.take_unbacked(s, 2 * page, lacks_nothing);
    REQUIRE(b != nullptr);
    f.node.faults().when([](sim_call_info const&) { return true; });
    {
        doubles::bombing armed{1}; // the use cannot be recorded
        f.heap.return_unbacked(b, &view, page);
        CHECK(armed.defuse());
    }
    f.node.faults().clear();
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(f.usage().live == page);
    CHECK(f.usage().peak_live == page);
    CHECK(f.usage().requested == 0);
    {
        auto const held = f.lock.hold();
        CHECK(f.heap.live(at(sixteen_pages::base), 2 * page) == nullptr);
    }
    block* const next = f.take_unbacked(s, page, lacks_nothing);
    REQUIRE(next != nullptr);
    CHECK(next->address == sixteen_pages::base + 2 * page);
    f.heap.return_unbacked(next, nullptr, 0);
    CHECK(f.usage().live == page);
}

TEST_CASE("paged_heap: memory that arrives on the page before a block is recorded there, too") {
    sixteen_pages f;
    sim_stream    s, other;
    void* const   first = f.take(other, page);
    block* const  b     = f.take_unbacked(s, page, lacks_nothing);
    REQUIRE(b != nullptr);
    f.give(other, first, page);
    (void)f.usage(); // coalesces cached blocks
    {
        auto const held = f.lock.hold();
        CHECK(f.heap.share(b, sixteen_pages::base, b->end(), s));
    }
    sim_launch(s, {.name = "earlier", .duration = 1ms});
    block* const next = f.take_unbacked(other, page, [](std::uintptr_t from, std::uintptr_t) {
        return from == sixteen_pages::base ? std::size_t{0} : page;
    });
    REQUIRE(next != nullptr);
    CHECK(next->address != sixteen_pages::base); // rather than wait
    f.heap.return_unbacked(next, nullptr, 0);
    f.heap.return_unbacked(b, nullptr, 0);
}

TEST_CASE("paged_heap: a block that was waited for and returned has its earlier uses") {
    for (std::size_t const pages : {1U, 16U}) { // of which the first is in use
        sixteen_pages f;
        sim_stream    s, other, third;
        void* const   p = f.take(s, page);
        sim_launch(s, {.name = "work", .duration = 1ms});
        f.give(s, p, page);
        (void)f.usage();
        block* const b = f.take_unbacked(other, pages * page, lacks_nothing);
        REQUIRE(b != nullptr);
        CHECK(f.usage().waits == 1);
        f.heap.return_unbacked(b, nullptr, 0);
        block* const again = f.take_unbacked(third, pages * page, lacks_nothing);
        REQUIRE(again != nullptr);
        CHECK(f.usage().waits == 2);
        (void)f.heap.filled(again);
        CHECK(again->slot == block::nobody); // the stream that uses it is ordered after all of that
        f.give(third, again->pointer(), pages * page);
    }
}

TEST_CASE("paged_heap: the unused rest of a block is available without a wait") {
    sixteen_pages f;
    sim_stream    s, other;
    void* const   front = f.take(other, page);
    void* const   back  = f.take(s, page);
    void* const   wall  = f.take(s, page);
    sim_launch(s, {.name = "work", .duration = 1ms});
    f.give(other, front, page);
    f.give(s, back, page);
    block* const b = f.take_unbacked(other, page, [](std::uintptr_t from, std::uintptr_t) {
        return from == sixteen_pages::base ? std::size_t{0} : page;
    });
    REQUIRE(b != nullptr);
    CHECK(b->pointer() == front);
    CHECK(f.usage().waits == 0);
    f.heap.return_unbacked(b, nullptr, 0);
    f.give(s, wall, page);
}

TEST_CASE("paged_heap: a quarantined block is unavailable until it is returned") {
    sixteen_pages         f;
    sim_stream            s, other;
    sim_stream_view const view = s, another = other;
    void* const           p = f.take(s, 4 * page);
    void* const           q = f.take(s, 4 * page);
    f.give(s, p, 4 * page);
    CHECK(f.heap.may_have_pages(page, 8 * page));
    // The end has 8 pages, and another block has 4.
    CHECK_FALSE(f.heap.may_have_pages(page, 8 * page + 1));
    auto const end = f.set_aside(&another);
    REQUIRE(end.size() == 1); // the other free piece would take a wait
    CHECK(end[0]->address == sixteen_pages::base + 8 * page);
    f.give_again(end[0], false);
    auto const both = f.set_aside(&view); // in order from the end
    REQUIRE(both.size() == 2);
    CHECK(both[1]->pointer() == p);
    CHECK(f.take(s, page) == nullptr);
    f.give_again(both[1], true);
    f.give_again(both[0], false);
    CHECK(f.take(s, 4 * page) == at(sixteen_pages::base + 8 * page)); // the other lacks memory now
    block* const unbacked = f.take_unbacked(s, 4 * page, lacks_nothing);
    REQUIRE(unbacked != nullptr);
    CHECK(f.heap.filled(unbacked) == p);
    f.give(s, p, 4 * page);
    f.give(s, q, 4 * page);
    f.give(s, at(sixteen_pages::base + 8 * page), 4 * page);
    CHECK(f.usage().live == 0);
}

TEST_CASE("paged_heap: a stream's ready memory includes all blocks of that size and more") {
    sim_node              node;
    sixteen_pages         f;
    sim_stream            s, other;
    sim_stream_view const mine = s, others = other;
    void* const           a    = f.take(s, 4 * page);
    void* const           wall = f.take(s, page);
    f.give(s, a, 4 * page);
    CHECK(f.ready(&mine, page).size() == 2); // and the rest of the chunk
    CHECK(f.ready(&mine, 5 * page).size() == 1);
    CHECK(f.ready(&mine, 16 * page).empty());
    CHECK(f.ready(&others, page).size() == 1);
    CHECK(f.ready(nullptr, page).size() == 1);
    for (block* const b : f.ready(nullptr, page)) {
        f.heap.set_aside(b);
        CHECK(f.ready(nullptr, page).empty()); // other streams do not get it
        f.give_again(b, true);
    }
    f.give(s, wall, page);
}
