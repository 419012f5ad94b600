// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_late_waits.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_call.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <memory>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_late_waits: a collective orders nothing before all ranks have queued it") {
    sim_machine       m{{.devices = 2}};
    sim_call          call{m, sim_call_kind::other, 0, std::source_location::current()};
    sim_stream_state& s       = m.make_stream(*call.host, 0, false);
    sim_stream_state& t       = m.make_stream(*call.host, 1, false);
    auto const        meeting = std::make_shared<sim_meeting>();
    meeting->ranks            = 2;
    sim_operation op;
    op.task.meeting    = meeting;
    vector_clock first = s.vclock, second = t.vclock;
    auto const   step = first.advance(s.slot);
    sim_late_waits{m}.join_meeting(op, first, s);
    CHECK(meeting->queued.size() == 1);
    CHECK_FALSE(second.includes(s.slot, step));
    sim_late_waits{m}.join_meeting(op, second, t);
    CHECK(meeting->queued.empty());
    CHECK(second.includes(s.slot, step));
}
