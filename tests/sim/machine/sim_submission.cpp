// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_submission.hpp> // first: the header stands alone

#include <vram/sim/machine/sim_call.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <initializer_list>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_submission: an operation that could not be prepared runs without an effect") {
    sim_machine m{{}};
    sim_call    call{m, sim_call_kind::other, 0, std::source_location::current()};
    int         effects = 0;
    for (bool const whole : {true, false}) {
        sim_operation& op =
            m.schedule.make({.name = "k", .effect = [&] { ++effects; }}, call.host->clock, 0);
        sim_submission given{m.schedule, op};
        given.whole = whole;
    }
    while (m.schedule.next() != sim_time::max()) { m.schedule.step(call.held); }
    CHECK(effects == 1);
}
