// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim.hpp>

#include "../doubles/bombing.hpp"
#include "../doubles/mishaps.hpp"
#include "pools_of_one_chunk.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace vram;

TEST_CASE("every pool: without host memory no block that is freed in a capture is lost") {
    proofs::for_pools_of_one_chunk([](std::string const& name, auto make) {
        for (event_policy const events : {event_policy::lazy, event_policy::eager}) {
            for (std::uint64_t n = 1; n < 5; ++n) {
                CAPTURE(events);
                CAPTURE(n);
                doubles::mishaps const told;
                sim_node               node{{.on_report = sim_on_report::collect}};
                sim_stream             s;
                auto mr = make({.events = events, .graphs = events == event_policy::lazy});
                mr.deallocate_sync(mr.allocate_sync(1_MiB), 1_MiB); // a chunk without pending uses
                void* const p = mr.allocate(s, 1_MiB);
                sim_graph::begin(s);
                doubles::bombing armed{n};
                mr.deallocate(s, p, 1_MiB);
                bool const hit = armed.defuse();
                CHECK_NOTHROW((void)sim_graph::end(s));
                if (name == "slab" || name == "binned") { CHECK_FALSE(hit); } // it needs none
                CHECK(mr.usage().live == 0);
                CHECK(told.count() == 0);
                mr.forget_captures();
                CHECK(mr.trim() == 1_MiB);
                CHECK(node.reports().empty());
            }
        }
    });
}
