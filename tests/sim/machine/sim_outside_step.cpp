// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_outside_step.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_queue.hpp>

#include <doctest/doctest.h>

// Waits beside threads in simulated time are tested in sim_thread.cpp and sim_gate.cpp.

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_outside_step: without threads in simulated time, each step advances it") {
    sim_machine       m{{}};
    sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_stream_state& s = m.make_stream(*call.host, 0, false);
    sim_queue{call}.enqueue(s,
                            {.name = "k", .engine = sim_engine::compute, .duration = sim_time{9}});
    CHECK(s.tail.pending());
    while (s.tail.pending()) { CHECK(sim_outside_step(m, call.held)); }
    CHECK(m.schedule.now() == sim_time{9});
}
