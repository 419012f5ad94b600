// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file `for_pools_of_one_chunk` runs a test on every pool of vram, over the simulated device.

#include "../doubles/resetting.hpp" // resetting

#include <vram/base/bytes.hpp>               // literals
#include <vram/layer/stream_ordered.hpp>     // stream_ordered
#include <vram/pool/arena.hpp>               // arena
#include <vram/pool/binned.hpp>              // binned
#include <vram/pool/event_policy.hpp>        // event_policy
#include <vram/pool/fixed_growth.hpp>        // fixed_growth
#include <vram/pool/monotonic.hpp>           // monotonic
#include <vram/pool/pool.hpp>                // pool
#include <vram/pool/slab.hpp>                // slab
#include <vram/sim/sim_resource.hpp>         // sim_resource
#include <vram/sim/sim_virtual_resource.hpp> // sim_virtual_resource

#include <doctest/doctest.h>

#include <cstddef> // size_t
#include <string>  // string
#include <utility> // move

namespace proofs {

using namespace vram::literals;

/// The parameters of a pool.
struct pool_wish {
    std::size_t        block  = 1_MiB; ///< size of its requests: a power of two
    std::size_t        chunk  = 1_MiB; ///< all that it can have, in one piece
    vram::event_policy events = vram::event_policy::lazy;
    bool               graphs = false;
};

/// Calls `body(name, make)` for each pool; `make(upstream, wish)` creates one.
template <class Body>
void for_pools_over_any(Body body) {
    using namespace vram;
    auto const run = [&](std::string const& name, auto make) {
        CAPTURE(name);
        body(name, make);
    };
    run("pool", [](auto up, pool_wish const& w) {
        return pool{std::move(up),
                    {.max_size = w.chunk, .events = w.events, .graphs = w.graphs},
                    fixed_growth{w.chunk}};
    });
    run("arena", [](auto up, pool_wish const& w) {
        return arena{std::move(up),
                     {.max_size = w.chunk, .count = 1, .events = w.events, .graphs = w.graphs},
                     fixed_growth{w.chunk}};
    });
    run("slab", [](auto up, pool_wish const& w) {
        return slab{
            std::move(up), w.block, {.max_size = w.chunk, .events = w.events, .graphs = w.graphs}};
    });
    run("binned", [](auto up, pool_wish const& w) {
        return binned{
            std::move(up),
            {.largest = w.block, .max_size = w.chunk, .events = w.events, .graphs = w.graphs}};
    });
    run("monotonic", [](auto up, pool_wish const& w) {
        return doubles::resetting{
            monotonic{std::move(up),
                      {.max_size = w.chunk, .events = w.events, .graphs = w.graphs},
                      fixed_growth{w.chunk}}};
    });
}

/// Calls `body(name, make)` for each pool; `make(wish)` creates one with a chunk in the order of
/// the first requesting stream.
template <class Body>
void for_pools_of_one_chunk(Body body) {
    for_pools_over_any([&](std::string const& name, auto make) {
        body(name, [make](pool_wish const& w) {
            return make(vram::stream_ordered{vram::sim_resource{}}, w);
        });
    });
}

/// A pool over virtual memory, in pages of 2 MiB.
[[nodiscard]] inline auto pool_of_pages(pool_wish const& w) {
    return vram::pool{vram::sim_virtual_resource{{.handle_size = 2_MiB}},
                      {.max_size = w.chunk, .events = w.events, .graphs = w.graphs}};
}

} // namespace proofs
