// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("sim: sim/sim.hpp includes the whole platform") {
    sim_node            node;
    sim_resource        memory;
    sim_async_resource  async;
    sim_pinned_resource pinned;
    sim_stream          stream;
    sim_event           event;
    event.record(stream);
    sim_work(1us);
    CHECK(event.done());
    CHECK(node.reports().empty());
}
