// SPDX-License-Identifier: Apache-2.0
#include <vram/source/virtual_source.hpp> // first: the header stands alone

#include "../doubles/bombing.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/small_pages.hpp"

#include <vram/pool/peak_scope.hpp>
#include <vram/sim/machine/sim_virtual_memory.hpp>
#include <vram/sim/sim.hpp>

#include <random>
#include <string>
#include <vector>

using namespace vram;
using namespace vram::detail;
using doubles::mishaps;
using doubles::small_page;

template class vram::virtual_source<sim_virtual_memory>;

namespace {

using sim_source = virtual_source<sim_virtual_memory>;

constexpr std::size_t one_page = small_page; // a page

sim_source sixty_four_pages(std::size_t keep = 0) {
    return sim_source{sim_virtual_memory{},
                      {.reserve = 64 * one_page, .handle_size = one_page, .keep = keep}};
}

std::byte* take_pages(sim_source& mr, std::size_t pages) {
    return static_cast<std::byte*>(mr.allocate_sync(pages * one_page));
}

/// The device writes the whole block, and completes.
void use_all(void* p, std::size_t bytes) {
    sim_stream s;
    sim_fill(s, p, std::byte{9}, bytes);
    s.synchronize();
}

} // namespace

TEST_CASE("virtual_source: a block has whole pages, and grows in place") {
    sim_node   node{doubles::small_pages()};
    sim_source mr = sixty_four_pages();
    CHECK(mr.page_size() == one_page);
    auto* const p = static_cast<std::byte*>(mr.allocate_sync(one_page + 1));
    CHECK(mr.usage().live == 2 * one_page);
    CHECK(mr.usage().requested == one_page + 1);
    CHECK(mr.usage().reserved == 2 * one_page);
    auto const made = node.faults().calls(sim_call_kind::create);
    CHECK(mr.extend(p, one_page + 1, one_page - 1)); // the rest of its page
    CHECK(node.faults().calls(sim_call_kind::create) == made);
    CHECK(mr.extend(p, 2 * one_page, 10 * one_page));
    use_all(p, 12 * one_page);
    CHECK(mr.usage().live == 12 * one_page);
    CHECK(mr.usage().reserved == 12 * one_page);
    CHECK(mr.usage().upstream == 12);
    CHECK(mr.shrink(p, 12 * one_page, one_page / 2) == 0); // its page is still in use
    CHECK(mr.shrink(p, 12 * one_page - one_page / 2, 5 * one_page) == 5 * one_page);
    CHECK(mr.usage().live == 7 * one_page);
    CHECK(mr.usage().peak_live == 12 * one_page);
    CHECK(mr.usage().peak_reserved == 12 * one_page);
    mr.deallocate_sync(p, 7 * one_page - one_page / 2);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().requested == 0);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: reset_peaks begins a scope's peaks, and raise_peaks restores the "
          "earlier ones") {
    sim_node   node{doubles::small_pages()};
    sim_source mr = sixty_four_pages();
    mr.deallocate_sync(take_pages(mr, 12), 12 * one_page);
    auto* const stays = take_pages(mr, 4);
    {
        peak_scope const scope{mr};
        CHECK(scope.live() == 4 * one_page);
        CHECK(scope.reserved() == 4 * one_page);
        mr.deallocate_sync(take_pages(mr, 5), 5 * one_page);
        CHECK(scope.live() == 9 * one_page);
        CHECK(scope.reserved() == 9 * one_page);
    }
    mr.deallocate_sync(stays, 4 * one_page);
    CHECK(mr.usage().peak_live == 12 * one_page);
    CHECK(mr.usage().peak_reserved == 12 * one_page);
}

TEST_CASE("virtual_source: a block begins at a page, for all sizes of page and alignment") {
    sim_node node{doubles::small_pages()};
    for (std::size_t const granules : {1, 2, 3, 5, 6, 12}) {
        std::size_t const page = granules * one_page;
        sim_source        mr{sim_virtual_memory{}, {.reserve = 60 * page, .handle_size = page}};
        for (std::size_t alignment = one_page / 2; alignment <= 16 * one_page; alignment *= 2) {
            auto* const p = static_cast<std::byte*>(mr.allocate_sync(2 * page, alignment));
            CHECK(is_aligned(p, alignment));
            CHECK(mr.drop(p, page) == page); // its whole first page
            CHECK(mr.mapped(p, 2 * page) == page);
            CHECK(mr.fill(p, 1));
            use_all(p, 2 * page);
            mr.deallocate_sync(p, 2 * page, alignment);
        }
        CHECK(mr.usage().reserved == 0);
    }
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: a block cannot grow into another, nor beyond the device, and a refusal "
          "changes nothing") {
    sim_node         node{doubles::small_pages(40)};
    sim_source       mr   = sixty_four_pages();
    std::byte* const p    = take_pages(mr, 2);
    std::byte* const q    = take_pages(mr, 1); // half way
    auto const       room = static_cast<std::size_t>(q - p);
    CHECK(room == 33 * one_page);
    CHECK_FALSE(mr.extend(p, 2 * one_page, 32 * one_page)); // one page into q
    CHECK(mr.extend(p, 2 * one_page, 31 * one_page));
    CHECK_FALSE(mr.extend(q, one_page, 8 * one_page)); // the device has six left
    CHECK(mr.usage().reserved == 34 * one_page);
    CHECK(mr.extend(q, one_page, 6 * one_page));
    use_all(p, 33 * one_page);
    use_all(q, 7 * one_page);
    CHECK_FALSE(mr.extend(q, 7 * one_page, SIZE_MAX));
    mr.deallocate_sync(p, 33 * one_page);
    mr.deallocate_sync(q, 7 * one_page);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: pages of a block can be unbacked and backed again") {
    sim_node         node{doubles::small_pages()};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take_pages(mr, 8);
    CHECK(mr.mapped(p, 8 * one_page) == 8 * one_page);
    CHECK(mr.drop(p + 100, 3 * one_page) == 2 * one_page); // those that lie in it wholly
    CHECK(mr.mapped(p, 8 * one_page) == 6 * one_page);
    CHECK(mr.mapped(p + one_page / 2, 3 * one_page) == one_page); // two halves
    CHECK(node.figures().used == 6 * one_page);
    std::size_t runs = 0, sum = 0;
    mr.for_each_mapped([&](void*, std::size_t n) {
        ++runs;
        sum += n;
    });
    CHECK(runs == 2);
    CHECK(sum == 6 * one_page);
    use_all(p + 3 * one_page, 5 * one_page);
    CHECK(mr.fill(p + one_page + 5, 1)); // the page that it touches
    CHECK(mr.mapped(p, 8 * one_page) == 7 * one_page);
    CHECK(mr.fill(p, 8 * one_page));
    use_all(p, 8 * one_page);
    CHECK(mr.fill(p, 0));
    CHECK(mr.drop(p, 0) == 0);
    CHECK(mr.mapped(p, 0) == 0);
    CHECK(mr.drop(p, 8 * one_page) == 8 * one_page); // a block of addresses alone
    CHECK(mr.usage().reserved == 0);
    CHECK(mr.usage().live == 0); // unbacked memory is not live
    CHECK(mr.usage().requested == 8 * one_page);
    mr.deallocate_sync(p, 8 * one_page);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: a block owns the rest of the pages at its ends") {
    sim_node    node{doubles::small_pages()};
    sim_source  mr = sixty_four_pages();
    auto* const p  = static_cast<std::byte*>(mr.allocate_sync(2 * one_page + 100, 2 * one_page));
    CHECK(mr.drop(p + one_page, one_page + 100) == 2 * one_page);
    CHECK(mr.drop(p, one_page - 1) == 0);
    mr.deallocate_sync(p, 2 * one_page + 100, 2 * one_page);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: free pages are remapped for a request that no free range could meet") {
    sim_node         node{doubles::small_pages(12)}; // the device has twelve pages
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take_pages(mr, 12);
    use_all(p, 12 * one_page);
    // Every other pair is free: four pages here, and none at the device.
    CHECK_FALSE(mr.extend(p, 12 * one_page, one_page));
    CHECK(mr.widen(p, 12 * one_page, 4 * one_page));
    CHECK(mr.mapped(p + 12 * one_page, 4 * one_page) == 0);
    CHECK(mr.remap(p + 2 * one_page, 2 * one_page, p + 12 * one_page, 4 * one_page) ==
          2 * one_page);
    CHECK(mr.remap(p + 6 * one_page, 2 * one_page, p + 12 * one_page, 4 * one_page) ==
          2 * one_page);
    CHECK(mr.remap(p + 10 * one_page, one_page, p + 12 * one_page, 4 * one_page) ==
          0); // it is complete
    CHECK(mr.mapped(p, 16 * one_page) == 12 * one_page);
    CHECK(mr.usage().reserved == 12 * one_page);
    use_all(p + 12 * one_page, 4 * one_page);
    use_all(p, 2 * one_page);
    CHECK(mr.remap(p + one_page / 2, 2 * one_page, p + 2 * one_page, one_page) ==
          one_page);                           // one whole page of it
    CHECK(mr.mapped(p, one_page) == one_page); // half of this one was not offered
    CHECK(mr.remap(p, 0, p, one_page) == 0);
    CHECK(mr.remap(p, one_page, p + 2 * one_page, 0) == 0);
    mr.deallocate_sync(p, 16 * one_page);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: pages move from one block to another") {
    sim_node         node{doubles::small_pages(4)};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take_pages(mr, 3);
    std::byte* const q  = take_pages(mr, 1);
    CHECK(mr.widen(q, one_page, 2 * one_page));
    CHECK(mr.moved_to(p + one_page) == nullptr); // it is there
    CHECK(mr.remap(p + one_page, 2 * one_page, q, 3 * one_page) == 2 * one_page);
    use_all(q, 3 * one_page);
    use_all(p, one_page);
    CHECK(mr.moved_to(p + 2 * one_page + 1) == q + 2 * one_page);
    CHECK(mr.moved_to(q + one_page) == nullptr);
    CHECK(mr.moved_to(nullptr) == nullptr);
    auto const calls = doubles::page_calls(node);
    CHECK(mr.remap(q + 2 * one_page, one_page, p + 2 * one_page, one_page) == one_page);
    CHECK(mr.remap(p + 2 * one_page, one_page, q + 2 * one_page, one_page) == one_page);
    CHECK(doubles::page_calls(node) == calls); // it was mapped at both
    mr.deallocate_sync(q, 3 * one_page);
    mr.deallocate_sync(p, 3 * one_page);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: kept pages are used for the next block, and are trimmed") {
    sim_node   node{doubles::small_pages()};
    sim_source mr = sixty_four_pages(3 * one_page);
    mr.deallocate_sync(take_pages(mr, 5), 5 * one_page);
    CHECK(mr.usage().reserved == 3 * one_page);
    CHECK(mr.usage().largest_free == 3 * one_page);
    CHECK(mr.trim(SIZE_MAX) == 0);
    CHECK(mr.trim(2 * one_page + 5) == one_page);
    CHECK(mr.usage().reserved == 2 * one_page);
    auto const       made = node.faults().calls(sim_call_kind::create);
    std::byte* const p    = take_pages(mr, 2);
    CHECK(node.faults().calls(sim_call_kind::create) == made);
    mr.deallocate_sync(p, 2 * one_page);
    CHECK(mr.trim() == 2 * one_page);
    CHECK(node.figures().used == 0);
}

TEST_CASE("virtual_source: `keep` below one page has no effect, and is a broken contract") {
    sim_node                       node{doubles::small_pages(10)};
    doubles::contracts_throw const guard;
    CHECK_THROWS_AS(sixty_four_pages(one_page - 1), doubles::broken_contract);
}

TEST_CASE("virtual_source: a refusal has the numbers of the span and the device") {
    sim_node         node{doubles::small_pages(10)};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take_pages(mr, 4);
    try {
        (void)mr.allocate_sync(7 * one_page - 1, 512);
        FAIL("the device has six pages left");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 7 * one_page - 1);
        CHECK(e.numbers().rounded == 7 * one_page);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().live == 4 * one_page);
        CHECK(e.numbers().reserved == 4 * one_page);
        // The pages of the failed attempt were returned.
        CHECK(e.numbers().device_free == 6 * one_page);
        CHECK(e.numbers().device_total == 10 * one_page);
    }
    CHECK(mr.try_allocate_sync(7 * one_page) == nullptr);
    CHECK(mr.try_allocate_sync(100 * one_page) == nullptr); // the span has no such addresses
    CHECK(mr.usage().reserved == 4 * one_page);
    CHECK(mr.usage().allocations == 1);
    for (std::size_t const n : {SIZE_MAX, SIZE_MAX - one_page, SIZE_MAX / 2}) {
        CHECK_THROWS_AS((void)mr.allocate_sync(n), out_of_memory);
    }
    mr.deallocate_sync(p, 4 * one_page);
}

TEST_CASE("virtual_source: a free of a foreign pointer, or with a wrong size, is reported") {
    mishaps const    told;
    sim_node         node{doubles::small_pages()};
    sim_source       mr   = sixty_four_pages();
    std::byte* const p    = take_pages(mr, 2);
    int              mine = 0;
    mr.deallocate_sync(&mine, 4);
    mr.deallocate_sync(p + one_page, one_page);
    CHECK_FALSE(mr.extend(p + 1, one_page, one_page));
    CHECK_FALSE(mr.fill(p + 2 * one_page, 1));
    CHECK(mr.drop(p - 1, 5) == 0);
    CHECK(mr.remap(&mine, 4, p, one_page) == 0);
    CHECK(mr.remap(p, one_page, p + one_page, 2 * one_page) == 0);
    CHECK(told.count(error_kind::foreign_pointer) == 5);
    CHECK(told.count(error_kind::interior_pointer) == 2);
    CHECK_FALSE(mr.extend(p, one_page, one_page));
    CHECK(mr.shrink(p, 2 * one_page, 2 * one_page) == 0);
    CHECK(mr.mapped(p, 3 * one_page) == 0);
    CHECK(mr.mapped(p, 2 * one_page) == 2 * one_page);
    mr.deallocate_sync(p, one_page);
    CHECK(told.count(error_kind::wrong_size) == 3);
    CHECK(told.count() == 10);
    CHECK(mr.mapped(p, 2 * one_page) == 2 * one_page); // nothing else happens
    mr.deallocate_sync(p, 2 * one_page);
    CHECK(told.count() == 10);
    mr.deallocate_sync(p, 2 * one_page);
    CHECK(told.count(error_kind::double_free) == 1);
    CHECK(node.figures().used == 0);
}

TEST_CASE("virtual_source: live blocks at its end are reported and freed") {
    mishaps const told;
    sim_node      node{doubles::small_pages()};
    {
        sim_source first = sixty_four_pages();
        take_pages(first, 2);
        sim_source const second{std::move(first)}; // with all its blocks
        CHECK(first.usage() == memory_usage{});
        CHECK(first.try_allocate_sync(1) == nullptr);
        CHECK(second.usage().live == 2 * one_page);
    }
    CHECK(told.count(error_kind::leak) == 1);
    CHECK(told.count() == 1);
    CHECK(node.figures().used == 0);
}

TEST_CASE(
    "virtual_source: handles are rounded to the device's granularity, and the span to handles") {
    sim_node   node{doubles::small_pages()};
    sim_source mr{sim_virtual_memory{}, {.reserve = 1, .handle_size = one_page + 1}};
    CHECK(mr.page_size() == 2 * one_page);
    void* const p = mr.allocate_sync(2 * one_page);
    CHECK(mr.try_allocate_sync(1) == nullptr);
    mr.deallocate_sync(p, 2 * one_page);
    CHECK(sim_source{sim_virtual_memory{}, {.handle_size = 0}}.page_size() == one_page);
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((sim_source{sim_virtual_memory{}, {.reserve = SIZE_MAX}}),
                    doubles::broken_contract);
    CHECK_THROWS_AS((void)mr.allocate_sync(1, 3), doubles::broken_contract);
}

TEST_CASE("virtual_source: a failure of any driver call leaves it unchanged") {
    for (std::uint64_t const times : {1, 1000}) {
        std::byte* p    = nullptr;
        std::byte* q    = nullptr;
        auto const make = [&] {
            sim_source mr = sixty_four_pages();
            p             = take_pages(mr, 4);
            mr.drop(p + one_page, 2 * one_page);
            return mr;
        };
        auto const home = [&](sim_source& mr, std::size_t bytes) {
            use_all(p, one_page);
            mr.deallocate_sync(p, bytes);
            mr.trim();
            CHECK(mr.usage().live == 0);
            CHECK(mr.usage().reserved == 0);
        };
        unsigned thrown = doubles::walk_page_calls(
            make, [&](sim_source& mr) { q = take_pages(mr, 3); },
            [&](sim_source& mr, bool failed) {
                CHECK(mr.usage().live == (failed ? 2 : 5) * one_page);
                CHECK((times != 1 || mr.usage().reserved == (failed ? 2 : 5) * one_page));
                if (!failed) { mr.deallocate_sync(q, 3 * one_page); }
                home(mr, 4 * one_page);
            },
            times);
        CHECK(thrown == 7);
        bool grown = false;
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { grown = mr.extend(p, 4 * one_page, 2 * one_page); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.usage().live == (grown ? 4 : 2) * one_page);
                      CHECK(mr.mapped(p, 4 * one_page) == 2 * one_page);
                      home(mr, (grown ? 6 : 4) * one_page);
                  },
                  times) == 0);
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { grown = mr.fill(p, 4 * one_page); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.mapped(p, 4 * one_page) == (grown ? 4 : 2) * one_page);
                      home(mr, 4 * one_page);
                  },
                  times) == 0);
        std::size_t moved = 0;
        CHECK(doubles::walk_page_calls(
                  make,
                  [&](sim_source& mr) {
                      moved = mr.remap(p + 3 * one_page, one_page, p, 2 * one_page);
                  },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.usage().reserved == 2 * one_page);
                      CHECK(mr.mapped(p + one_page, one_page) == moved);
                      CHECK((times != 1 || mr.mapped(p, 4 * one_page) == 2 * one_page));
                      home(mr, 4 * one_page);
                  },
                  times) == 0);
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { mr.deallocate_sync(p, 4 * one_page); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.usage().live == 0);
                      q = take_pages(mr, 64); // also after pages that could not be unmapped
                      use_all(q, 64 * one_page);
                      mr.deallocate_sync(q, 64 * one_page);
                      mr.trim();
                      CHECK(mr.usage().reserved == 0);
                  },
                  times) == 0);
    }
}

TEST_CASE("virtual_source: after random operations with failures, every page is accounted for") {
    struct piece {
        std::byte*  p;
        std::size_t pages;
    };
    for (unsigned seed = 1; seed <= 20; ++seed) {
        CAPTURE(seed);
        mishaps const told; // of pages that could not be unmapped
        sim_node      node{doubles::small_pages(40)};
        std::mt19937  random{seed};
        auto const    below = [&](std::size_t n) { return random() % n; };
        {
            sim_source         mr = sixty_four_pages(below(4) * one_page);
            std::vector<piece> out;
            for (int i = 0; i < 300; ++i) {
                if (seed % 2 == 0 && below(4) == 0) {
                    doubles::fail_page_call(node, 1 + below(6), 1 + below(3));
                }
                std::size_t const n     = 1 + below(9);
                std::size_t const which = below(out.size() + 1);
                if (which == out.size()) {
                    if (void* const p = mr.try_allocate_sync(n * one_page)) {
                        out.push_back({static_cast<std::byte*>(p), n});
                        CHECK(mr.mapped(p, n * one_page) == n * one_page);
                    }
                    continue;
                }
                piece&            b     = out[which];
                piece const&      other = out[below(out.size())];
                std::size_t const bytes = b.pages * one_page;
                std::byte* const  in    = b.p + below(b.pages) * one_page;
                auto const        rest  = bytes - static_cast<std::size_t>(in - b.p);
                std::size_t const had   = mr.mapped(b.p, bytes);
                switch (below(8)) {
                case 0:
                    mr.deallocate_sync(b.p, bytes);
                    out.erase(out.begin() + static_cast<std::ptrdiff_t>(which));
                    break;
                case 1:
                    if (mr.extend(b.p, bytes, n * one_page)) {
                        CHECK(mr.mapped(b.p + bytes, n * one_page) == n * one_page);
                        b.pages += n;
                    }
                    break;
                case 2:
                    if (mr.widen(b.p, bytes, n * one_page)) { b.pages += n; }
                    break;
                case 3:
                    if (n < b.pages) {
                        mr.shrink(b.p, bytes, n * one_page);
                        b.pages -= n;
                    }
                    break;
                case 4: {
                    bool const whole = mr.fill(in, rest);
                    CHECK((!whole || mr.mapped(in, rest) == rest));
                    CHECK((whole || mr.mapped(b.p, bytes) == had));
                    break;
                }
                case 5: {
                    std::size_t const gone = mr.drop(in, rest);
                    CHECK((told.count() != 0 || mr.mapped(b.p, bytes) == had - gone));
                    break;
                }
                default: {
                    std::size_t const to_bytes = other.pages * one_page;
                    std::size_t const before   = mr.mapped(other.p, to_bytes);
                    std::size_t const moved    = mr.remap(in, rest, other.p, to_bytes);
                    if (other.p != b.p && told.count() == 0) {
                        CHECK(mr.mapped(other.p, to_bytes) == before + moved);
                    }
                    break;
                }
                }
                CHECK(mr.usage().reserved == node.figures().used);
            }
            node.faults().clear();
            mr.for_each_mapped([](void* p, std::size_t n) { use_all(p, n); });
            for (piece const& b : out) { mr.deallocate_sync(b.p, b.pages * one_page); }
            CHECK(mr.usage().live == 0);
            mr.trim();
            CHECK(mr.usage().reserved == 0);
        }
        node.finish();
        CHECK(node.reports().empty());
        CHECK((seed % 2 == 0 || told.count() == 0));
    }
}

TEST_CASE("virtual_source: a failing host allocation leaves it unchanged") {
    sim_node node{doubles::small_pages()};
    bool     hit = true;
    for (std::uint64_t n = 1; hit; ++n) {
        sim_source       mr     = sixty_four_pages();
        std::byte* const p      = take_pages(mr, 2);
        void*            q      = nullptr;
        bool             failed = false;
        {
            doubles::bombing armed{n};
            try {
                q = mr.allocate_sync(3 * one_page);
            } catch (std::bad_alloc const&) { failed = true; }
            hit = armed.defuse();
        }
        CHECK(mr.usage().live == (failed ? 2 : 5) * one_page);
        CHECK(node.figures().used == mr.usage().reserved);
        mr.deallocate_sync(q, 3 * one_page);
        mr.deallocate_sync(p, 2 * one_page);
    }
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: extend maps the added bytes also in a last page without memory") {
    sim_node    node{doubles::small_pages()};
    sim_source  mr    = sixty_four_pages();
    std::size_t bytes = one_page + one_page / 4;
    auto* const p     = static_cast<std::byte*>(mr.allocate_sync(bytes));
    CHECK(mr.drop(p + one_page, one_page / 4) == one_page); // the last page loses its memory
    REQUIRE(mr.extend(p, bytes, one_page / 4));
    bytes += one_page / 4;
    CHECK(mr.mapped(p, bytes) == bytes);
    use_all(p, bytes);

    CHECK(mr.drop(p + one_page, one_page / 2) == one_page);
    REQUIRE(mr.extend(p, bytes, 0)); // adds no byte, so no page gets memory
    CHECK(mr.mapped(p, bytes) == one_page);
    REQUIRE(mr.extend(p, bytes, one_page)); // half of it lies in the last page
    bytes += one_page;
    CHECK(mr.mapped(p, bytes) == bytes);
    use_all(p, bytes);
    mr.deallocate_sync(p, bytes);
    CHECK(mr.usage().live == 0);
}

TEST_CASE("virtual_source: the report of a refused resize does not call it a free") {
    static std::vector<std::string> texts;
    texts.clear();
    error_sink const before =
        set_error_sink([](error const& e) noexcept { texts.emplace_back(error_text{e}.c_str()); });
    sim_node         node{doubles::small_pages()};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take_pages(mr, 2);
    CHECK_FALSE(mr.extend(p, 5, 6));
    CHECK(mr.shrink(p, 2 * one_page, 2 * one_page) == 0);
    CHECK_FALSE(mr.fill(p, 3 * one_page));
    set_error_sink(before);
    REQUIRE(texts.size() == 3);
    CHECK(texts[0].find("passed to extend, widen or shrink with 5 bytes. Pass the start and the "
                        "present size of a block.") != std::string::npos);
    CHECK(texts[1].find("passed to shrink with") != std::string::npos);
    CHECK(texts[2].find("passed to fill, drop or remap with") != std::string::npos);
    for (std::string const& each : texts) { CHECK(each.find("freed") == std::string::npos); }
    mr.deallocate_sync(p, 2 * one_page);
}
