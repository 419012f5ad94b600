// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_call.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {
std::source_location here(std::source_location w = std::source_location::current()) { return w; }
} // namespace

TEST_CASE("sim_call: a call costs simulated time, is counted, and receives injected faults") {
    sim_machine m{{.call_cost = sim_time{5}}};
    m.faults.at(sim_call_kind::record, 2, {.status = sim_status::refused});
    {
        sim_call const call{m, sim_call_kind::record, 0, here()};
        call.admit();
        CHECK(call.host->clock == sim_time{5});
    }
    {
        sim_call const call{m, sim_call_kind::record, 0, here()};
        CHECK_THROWS_AS(call.admit(), sim_error);
    }
    CHECK(m.faults.calls(sim_call_kind::record) == 2);
}

TEST_CASE("sim_call: a call inside an operation is refused") {
    sim_machine m{{}};
    detail::inside_effect = true;
    CHECK_THROWS_AS((sim_call{m, sim_call_kind::other, 0, here()}), sim_error);
    detail::inside_effect = false;
}

TEST_CASE("sim_call: each call of a host thread is a new step of its vector clock") {
    sim_machine        m{{}};
    sim_call           call{m, sim_call_kind::other, 0, here()};
    sim_event_of const a = call.host_step("a");
    sim_event_of const b = call.host_step("b");
    CHECK(a.host);
    CHECK(b.count > a.count);
    CHECK(b.number > a.number);
}
