// SPDX-License-Identifier: Apache-2.0
#include "../laws/moves.hpp"
#include "../doubles/resetting.hpp"

#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace vram;

TEST_CASE("pool: a move assignment frees its memory and takes the state of the other") {
    laws::moves([](auto up, laws::movable_options const& o) {
        return pool{std::move(up),
                    {.max_size = o.max_size, .events = o.events, .graphs = o.graphs},
                    fixed_growth{.step = o.step}};
    });
}

TEST_CASE("pool: a move assignment takes the peaks of the other, and keeps memory up to them") {
    sim_node        node;
    doubles::ledger here, gone;
    auto const      make = [](doubles::ledger& book) {
        return pool{
            laws::movable_upstream{doubles::archetype<sim_platform>{}, book}, {}, exact_growth{}};
    };
    auto        a = make(here);
    void* const p = a.allocate_sync(2_MiB);
    void*       q = a.allocate_sync(3_MiB);
    void*       r = a.allocate_sync(4_MiB); // nine are held
    a.deallocate_sync(q, 3_MiB);
    a.deallocate_sync(r, 4_MiB);
    CHECK(a.trim() == 7_MiB);
    a.reset_peaks(); // otherwise an eighth more than the peak could stay reserved
    auto b = make(gone);
    b      = std::move(a);
    q      = b.allocate_sync(3_MiB);
    b.deallocate_sync(q, 3_MiB);
    r = b.allocate_sync(4_MiB);
    CHECK(b.usage().reserved == 9_MiB);
    b.deallocate_sync(r, 4_MiB);
    b.deallocate_sync(p, 2_MiB);
}

TEST_CASE("slab: a move assignment frees its memory and takes the state of the other") {
    laws::moves(
        [](auto up, laws::movable_options const& o) {
            return slab{std::move(up),
                        1_MiB,
                        {.max_size = o.max_size, .events = o.events, .graphs = o.graphs}};
        },
        false, 1_MiB);
}

TEST_CASE("binned: a move assignment frees its memory and takes the state of the other") {
    laws::moves(
        [](auto up, laws::movable_options const& o) {
            return binned{std::move(up),
                          {.max_size = o.max_size, .events = o.events, .graphs = o.graphs}};
        },
        false);
}

TEST_CASE("monotonic: a move assignment frees its memory and takes the state of the other") {
    laws::moves([](auto up, laws::movable_options const& o) {
        return doubles::resetting{
            monotonic{std::move(up),
                      {.max_size = o.max_size, .events = o.events, .graphs = o.graphs},
                      fixed_growth{.step = o.step}}};
    });
}

TEST_CASE("arena: a move assignment frees its memory and takes the state of the other") {
    laws::moves([](auto up, laws::movable_options const& o) {
        return arena{std::move(up),
                     {.max_size = o.max_size,
                      .count    = 8,
                      .key      = arena_key::stream,
                      .events   = o.events,
                      .graphs   = o.graphs},
                     fixed_growth{.step = o.step}};
    });
}
