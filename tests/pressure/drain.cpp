// SPDX-License-Identifier: Apache-2.0
#include <vram/pressure/drain.hpp> // first: the header stands alone

#include <vram/layer/retrying.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/faults.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("drain: the device finishes what it has, once, and the upstream is asked again") {
    sim_node   node{{.capacity = 1_MiB}};
    retrying   mr{sim_resource{}, drain{}};
    sim_stream s;
    sim_launch(s, {.name = "long", .duration = 5ms});
    CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), out_of_memory);
    CHECK(node.now() == 5ms);
    CHECK(node.figures().refused == 2);
    void* const p = mr.allocate_sync(1_MiB); // no refusal, no wait
    CHECK(node.figures().refused == 2);
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE("drain: what fails while it waits goes on") {
    sim_node node{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    retrying mr{sim_resource{}, drain{}};
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), sim_error);
}
