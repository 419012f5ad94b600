// SPDX-License-Identifier: Apache-2.0
#include "../laws/moves.hpp"

#include <vram/pool/arena.hpp>
#include <vram/pool/binned.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/pool/monotonic.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pool/slab.hpp>

#include <doctest/doctest.h>

#include <utility>

using namespace vram;

TEST_CASE("pool: one that is assigned another gives back what it held, and is that other") {
    laws::moves([](auto up, laws::movable_options const& o) {
        return pool{std::move(up),
                    {.max_size = o.max_size, .events = o.events, .graphs = o.graphs},
                    fixed_growth{.step = o.step}};
    });
}

TEST_CASE("slab: one that is assigned another gives back what it held, and is that other") {
    laws::moves(
        [](auto up, laws::movable_options const& o) {
            return slab{std::move(up),
                        1_MiB,
                        {.max_size = o.max_size, .events = o.events, .graphs = o.graphs}};
        },
        false, 1_MiB);
}

TEST_CASE("binned: one that is assigned another gives back what it held, and is that other") {
    laws::moves(
        [](auto up, laws::movable_options const& o) {
            return binned{std::move(up),
                          {.max_size = o.max_size, .events = o.events, .graphs = o.graphs}};
        },
        false);
}

TEST_CASE("monotonic: one that is assigned another gives back what it held, and is that other") {
    laws::moves([](auto up, laws::movable_options const& o) {
        return monotonic{std::move(up),
                         {.max_size = o.max_size, .events = o.events, .graphs = o.graphs},
                         fixed_growth{.step = o.step}};
    });
}

TEST_CASE("arena: one that is assigned another gives back what it held, and is that other") {
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
