// SPDX-License-Identifier: Apache-2.0
#include <vram/source/virtual_source.hpp> // first: the header stands alone

#include "../doubles/bombing.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/small_pages.hpp"

#include <vram/sim/sim.hpp>
#include <vram/sim/sim_virtual_memory.hpp>

using namespace vram;
using doubles::mishaps;
using doubles::small_page;

template class vram::virtual_source<sim_virtual_memory>;

namespace {

using sim_source = virtual_source<sim_virtual_memory>;

constexpr std::size_t unit = small_page; // a page

sim_source sixty_four_pages(std::size_t keep = 0) {
    return sim_source{sim_virtual_memory{},
                      {.reserve = 64 * unit, .handle_size = unit, .keep = keep}};
}

std::byte* take(sim_source& mr, std::size_t pages) {
    return static_cast<std::byte*>(mr.allocate_sync(pages * unit));
}

/// Writes all of a block by the device, and lets it.
void use(void* p, std::size_t bytes) {
    sim_stream s;
    sim_fill(s, p, std::byte{9}, bytes);
    s.synchronize();
}

} // namespace

TEST_CASE("virtual_source: a block has whole pages, and grows where it lies") {
    sim_node   node{doubles::small_pages()};
    sim_source mr = sixty_four_pages();
    CHECK(mr.page_size() == unit);
    auto* const p = static_cast<std::byte*>(mr.allocate_sync(unit + 1));
    CHECK(mr.usage().live == 2 * unit);
    CHECK(mr.usage().requested == unit + 1);
    CHECK(mr.usage().reserved == 2 * unit);
    auto const made = node.faults().calls(sim_call_kind::create);
    CHECK(mr.extend(p, unit + 1, unit - 1)); // the rest of its page
    CHECK(node.faults().calls(sim_call_kind::create) == made);
    CHECK(mr.extend(p, 2 * unit, 10 * unit));
    use(p, 12 * unit);
    CHECK(mr.usage().live == 12 * unit);
    CHECK(mr.usage().reserved == 12 * unit);
    CHECK(mr.usage().upstream == 12);
    CHECK(mr.shrink(p, 12 * unit, unit / 2) == 0); // its page is still in use
    CHECK(mr.shrink(p, 12 * unit - unit / 2, 5 * unit) == 5 * unit);
    CHECK(mr.usage().live == 7 * unit);
    CHECK(mr.usage().peak_live == 12 * unit);
    CHECK(mr.usage().peak_reserved == 12 * unit);
    mr.deallocate_sync(p, 7 * unit - unit / 2);
    CHECK(mr.usage().live == 0);
    CHECK(mr.usage().requested == 0);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: a block cannot grow into another, nor beyond the device; all stays as "
          "it was") {
    sim_node         node{doubles::small_pages(40)};
    sim_source       mr   = sixty_four_pages();
    std::byte* const p    = take(mr, 2);
    std::byte* const q    = take(mr, 1); // half way
    auto const       room = static_cast<std::size_t>(q - p);
    CHECK(room == 33 * unit);
    CHECK_FALSE(mr.extend(p, 2 * unit, 32 * unit)); // one page into q
    CHECK(mr.extend(p, 2 * unit, 31 * unit));
    CHECK_FALSE(mr.extend(q, unit, 8 * unit)); // the device has six left
    CHECK(mr.usage().reserved == 34 * unit);
    CHECK(mr.extend(q, unit, 6 * unit));
    use(p, 33 * unit);
    use(q, 7 * unit);
    CHECK_FALSE(mr.extend(q, 7 * unit, SIZE_MAX));
    mr.deallocate_sync(p, 33 * unit);
    mr.deallocate_sync(q, 7 * unit);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: pages in a block come and go") {
    sim_node         node{doubles::small_pages()};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take(mr, 8);
    CHECK(mr.mapped(p, 8 * unit) == 8 * unit);
    CHECK(mr.drop(p + 100, 3 * unit) == 2 * unit); // those that lie in it wholly
    CHECK(mr.mapped(p, 8 * unit) == 6 * unit);
    CHECK(mr.mapped(p + unit / 2, 3 * unit) == unit); // two halves
    CHECK(node.figures().used == 6 * unit);
    std::size_t runs = 0, sum = 0;
    mr.for_each_mapped([&](void*, std::size_t n) {
        ++runs;
        sum += n;
    });
    CHECK(runs == 2);
    CHECK(sum == 6 * unit);
    use(p + 3 * unit, 5 * unit);
    CHECK(mr.fill(p + unit + 5, 1)); // the page that it touches
    CHECK(mr.mapped(p, 8 * unit) == 7 * unit);
    CHECK(mr.fill(p, 8 * unit));
    use(p, 8 * unit);
    CHECK(mr.fill(p, 0));
    CHECK(mr.drop(p, 0) == 0);
    CHECK(mr.mapped(p, 0) == 0);
    CHECK(mr.drop(p, 8 * unit) == 8 * unit); // a block of addresses alone
    CHECK(mr.usage().reserved == 0);
    CHECK(mr.usage().live == 8 * unit);
    mr.deallocate_sync(p, 8 * unit);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: at its ends a block has the rest of its pages") {
    sim_node    node{doubles::small_pages()};
    sim_source  mr = sixty_four_pages();
    auto* const p  = static_cast<std::byte*>(mr.allocate_sync(2 * unit + 100, 2 * unit));
    CHECK(mr.drop(p + unit, unit + 100) == 2 * unit);
    CHECK(mr.drop(p, unit - 1) == 0);
    mr.deallocate_sync(p, 2 * unit + 100, 2 * unit);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: free pages are put under a request that no run could meet") {
    sim_node         node{doubles::small_pages(12)}; // the device has twelve pages
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take(mr, 12);
    use(p, 12 * unit);
    // Every other pair is free: four pages here, and none at the device.
    CHECK_FALSE(mr.extend(p, 12 * unit, unit));
    CHECK(mr.widen(p, 12 * unit, 4 * unit));
    CHECK(mr.mapped(p + 12 * unit, 4 * unit) == 0);
    CHECK(mr.remap(p + 2 * unit, 2 * unit, p + 12 * unit, 4 * unit) == 2 * unit);
    CHECK(mr.remap(p + 6 * unit, 2 * unit, p + 12 * unit, 4 * unit) == 2 * unit);
    CHECK(mr.remap(p + 10 * unit, unit, p + 12 * unit, 4 * unit) == 0); // it is complete
    CHECK(mr.mapped(p, 16 * unit) == 12 * unit);
    CHECK(mr.usage().reserved == 12 * unit);
    use(p + 12 * unit, 4 * unit);
    use(p, 2 * unit);
    CHECK(mr.remap(p + unit / 2, 2 * unit, p + 2 * unit, unit) == unit); // one whole page of it
    CHECK(mr.remap(p, 0, p, unit) == 0);
    CHECK(mr.remap(p, unit, p + 2 * unit, 0) == 0);
    mr.deallocate_sync(p, 16 * unit);
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: pages move from one block to another") {
    sim_node         node{doubles::small_pages(4)};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take(mr, 3);
    std::byte* const q  = take(mr, 1);
    CHECK(mr.widen(q, unit, 2 * unit));
    CHECK(mr.remap(p + unit, 2 * unit, q, 3 * unit) == 2 * unit);
    use(q, 3 * unit);
    use(p, unit);
    mr.deallocate_sync(q, 3 * unit);
    mr.deallocate_sync(p, 3 * unit);
    CHECK(node.reports().empty());
}

TEST_CASE("virtual_source: what it keeps is for the next block, and is trimmed") {
    sim_node   node{doubles::small_pages()};
    sim_source mr = sixty_four_pages(3 * unit);
    mr.deallocate_sync(take(mr, 5), 5 * unit);
    CHECK(mr.usage().reserved == 3 * unit);
    CHECK(mr.usage().largest_free == 3 * unit);
    CHECK(mr.trim(SIZE_MAX) == 0);
    CHECK(mr.trim(2 * unit + 5) == unit);
    CHECK(mr.usage().reserved == 2 * unit);
    auto const       made = node.faults().calls(sim_call_kind::create);
    std::byte* const p    = take(mr, 2);
    CHECK(node.faults().calls(sim_call_kind::create) == made);
    mr.deallocate_sync(p, 2 * unit);
    CHECK(mr.trim() == 2 * unit);
    CHECK(node.figures().used == 0);
}

TEST_CASE("virtual_source: a refusal has its numbers, the span's and the device's") {
    sim_node         node{doubles::small_pages(10)};
    sim_source       mr = sixty_four_pages();
    std::byte* const p  = take(mr, 4);
    try {
        (void)mr.allocate_sync(7 * unit - 1, 512);
        FAIL("the device has six pages left");
    } catch (out_of_memory const& e) {
        CHECK(e.numbers().asked == 7 * unit - 1);
        CHECK(e.numbers().rounded == 7 * unit);
        CHECK(e.numbers().alignment == 512);
        CHECK(e.numbers().live == 4 * unit);
        CHECK(e.numbers().reserved == 4 * unit);
        CHECK(e.numbers().device_free == 0); // when it said no
        CHECK(e.numbers().device_total == 10 * unit);
    }
    CHECK(mr.try_allocate_sync(7 * unit) == nullptr);
    CHECK(mr.try_allocate_sync(100 * unit) == nullptr); // the span has no such addresses
    CHECK(mr.usage().reserved == 4 * unit);
    CHECK(mr.usage().allocations == 1);
    for (std::size_t const n : {SIZE_MAX, SIZE_MAX - unit, SIZE_MAX / 2}) {
        CHECK_THROWS_AS((void)mr.allocate_sync(n), out_of_memory);
    }
    mr.deallocate_sync(p, 4 * unit);
}

TEST_CASE("virtual_source: what is not its own, or has another size, is told") {
    mishaps const    told;
    sim_node         node{doubles::small_pages()};
    sim_source       mr   = sixty_four_pages();
    std::byte* const p    = take(mr, 2);
    int              mine = 0;
    mr.deallocate_sync(&mine, 4);
    mr.deallocate_sync(p + unit, unit);
    CHECK_FALSE(mr.extend(p + 1, unit, unit));
    CHECK_FALSE(mr.fill(p + 2 * unit, 1));
    CHECK(mr.drop(p - 1, 5) == 0);
    CHECK(mr.remap(&mine, 4, p, unit) == 0);
    CHECK(mr.remap(p, unit, p + unit, 2 * unit) == 0);
    CHECK(told.count(mishap::foreign_pointer) == 7);
    CHECK_FALSE(mr.extend(p, unit, unit));
    CHECK(mr.shrink(p, 2 * unit, 2 * unit) == 0);
    CHECK(mr.mapped(p, 3 * unit) == 0);
    CHECK(mr.mapped(p, 2 * unit) == 2 * unit);
    mr.deallocate_sync(p, unit); // given back all the same
    CHECK(told.count(mishap::wrong_size) == 3);
    CHECK(told.count() == 10);
    mr.deallocate_sync(p, 2 * unit);
    CHECK(told.count(mishap::foreign_pointer) == 8);
    CHECK(node.figures().used == 0);
}

TEST_CASE("virtual_source: what is out at its end is told, and given back") {
    mishaps const told;
    sim_node      node{doubles::small_pages()};
    {
        sim_source first = sixty_four_pages();
        take(first, 2);
        sim_source const second{std::move(first)}; // with all its blocks
        CHECK(first.usage() == memory_usage{});
        CHECK(first.try_allocate_sync(1) == nullptr);
        CHECK(second.usage().live == 2 * unit);
    }
    CHECK(told.count(mishap::leak) == 1);
    CHECK(told.count() == 1);
    CHECK(node.figures().used == 0);
}

TEST_CASE(
    "virtual_source: handles are rounded to what the device maps in, and the span to handles") {
    sim_node   node{doubles::small_pages()};
    sim_source mr{sim_virtual_memory{}, {.reserve = 1, .handle_size = unit + 1}};
    CHECK(mr.page_size() == 2 * unit);
    void* const p = mr.allocate_sync(2 * unit);
    CHECK(mr.try_allocate_sync(1) == nullptr);
    mr.deallocate_sync(p, 2 * unit);
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS((sim_source{sim_virtual_memory{}, {.reserve = SIZE_MAX}}),
                    doubles::broken_contract);
    CHECK_THROWS_AS((void)mr.allocate_sync(1, 3), doubles::broken_contract);
}

TEST_CASE("virtual_source: a failure in any call of the driver leaves all as it was") {
    for (std::uint64_t const times : {1, 1000}) {
        std::byte* p    = nullptr;
        std::byte* q    = nullptr;
        auto const make = [&] {
            sim_source mr = sixty_four_pages();
            p             = take(mr, 4);
            mr.drop(p + unit, 2 * unit);
            return mr;
        };
        auto const home = [&](sim_source& mr, std::size_t bytes) {
            use(p, unit);
            mr.deallocate_sync(p, bytes);
            mr.trim();
            CHECK(mr.usage().live == 0);
            CHECK(mr.usage().reserved == 0);
        };
        unsigned thrown = doubles::walk_page_calls(
            make, [&](sim_source& mr) { q = take(mr, 3); },
            [&](sim_source& mr, bool failed) {
                CHECK(mr.usage().live == (failed ? 4 : 7) * unit);
                CHECK((times != 1 || mr.usage().reserved == (failed ? 2 : 5) * unit));
                if (!failed) { mr.deallocate_sync(q, 3 * unit); }
                home(mr, 4 * unit);
            },
            times);
        CHECK(thrown == 7);
        bool grown = false;
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { grown = mr.extend(p, 4 * unit, 2 * unit); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.usage().live == (grown ? 6 : 4) * unit);
                      CHECK(mr.mapped(p, 4 * unit) == 2 * unit);
                      home(mr, (grown ? 6 : 4) * unit);
                  },
                  times) == 0);
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { grown = mr.fill(p, 4 * unit); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.mapped(p, 4 * unit) == (grown ? 4 : 2) * unit);
                      home(mr, 4 * unit);
                  },
                  times) == 0);
        std::size_t moved = 0;
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { moved = mr.remap(p + 3 * unit, unit, p, 2 * unit); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.usage().reserved == 2 * unit);
                      CHECK(mr.mapped(p + unit, unit) == moved);
                      CHECK((times != 1 || mr.mapped(p, 4 * unit) == 2 * unit));
                      home(mr, 4 * unit);
                  },
                  times) == 0);
        CHECK(doubles::walk_page_calls(
                  make, [&](sim_source& mr) { mr.deallocate_sync(p, 4 * unit); },
                  [&](sim_source& mr, bool) {
                      CHECK(mr.usage().live == 0);
                      q = take(mr, 64); // also where a page would not go
                      use(q, 64 * unit);
                      mr.deallocate_sync(q, 64 * unit);
                      mr.trim();
                      CHECK(mr.usage().reserved == 0);
                  },
                  times) == 0);
    }
}

TEST_CASE("virtual_source: a failing host allocation leaves all as it was") {
    sim_node node{doubles::small_pages()};
    bool     hit = true;
    for (std::uint64_t n = 1; hit; ++n) {
        sim_source       mr     = sixty_four_pages();
        std::byte* const p      = take(mr, 2);
        void*            q      = nullptr;
        bool             failed = false;
        {
            doubles::bombing armed{n};
            try {
                q = mr.allocate_sync(3 * unit);
            } catch (std::bad_alloc const&) { failed = true; }
            hit = armed.defuse();
        }
        CHECK(mr.usage().live == (failed ? 2 : 5) * unit);
        CHECK(node.figures().used == mr.usage().reserved);
        mr.deallocate_sync(q, 3 * unit);
        mr.deallocate_sync(p, 2 * unit);
    }
    CHECK(node.figures().used == 0);
    CHECK(node.reports().empty());
}
