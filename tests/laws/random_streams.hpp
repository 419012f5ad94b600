// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `random_streams` runs random operations on a pool of the simulated device, from sixteen streams.

#include "model_heap.hpp" // model_heap

#include <vram/sim/sim.hpp> // sim_node

#include <doctest/doctest.h>

#include <cstddef>          // size_t
#include <cstdint>          // uint64_t
#include <initializer_list> // initializer_list

namespace laws {

/// For each seed, `make()` creates the pool and `o.operations` random operations run against the
/// model heap. Then the pool must be able to return all its memory. The device's checker checks
/// every use.
template <class Make>
void random_streams(std::initializer_list<std::uint64_t> seeds, options o, Make make) {
    o.streams = 16;
    for (std::uint64_t const seed : seeds) {
        CAPTURE(seed);
        vram::sim_node node{{.on_report = vram::sim_on_report::collect}};
        {
            auto mr = make();
            o.seed  = seed;
            model_heap<decltype(mr)>{mr, o}.run();
            CHECK(mr.usage().live == 0);
            std::size_t const held = mr.usage().reserved;
            CHECK(held != 0);
            CHECK(mr.trim() >= held); // the upstream may also return memory that it had deferred
            CHECK(mr.usage().reserved == 0);
        }
        for (auto const& r : node.reports()) { MESSAGE(r.text()); }
        CHECK(node.reports().empty());
        CHECK(node.figures().used == 0);
    }
}

} // namespace laws
