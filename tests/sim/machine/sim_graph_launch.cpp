// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_graph_launch.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_call.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <memory>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_graph_launch: an empty graph orders later work after its launch") {
    sim_node   node;
    sim_stream s;
    {
        sim_call   call{node.machine(), sim_call_kind::other, 0, std::source_location::current()};
        auto const before          = call.machine.schedule.count();
        auto const graph           = std::make_shared<sim_graph_state>();
        sim_stream_view const view = s;
        sim_graph_launch{sim_queue{call}}.launch(graph, view.state());
        CHECK(call.machine.schedule.count() == before + 1); // the end of the graph
        CHECK(graph->last.number == view.state().tail.number);
    }
    s.synchronize();
}
