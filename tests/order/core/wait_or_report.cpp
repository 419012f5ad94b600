// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/wait_or_report.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("wait_or_report: if the stream cannot be waited for, its device is, and each failure is "
          "reported") {
    for (std::uint64_t refusals = 0; refusals < 4; ++refusals) {
        CAPTURE(refusals);
        sim_node               node{{.on_report = sim_on_report::collect}};
        doubles::mishaps const told;
        sim_stream             s;
        sim_launch(s, {.name = "busy", .duration = 5ms});
        if (refusals != 0) {
            node.faults().at(sim_call_kind::synchronize, 1, {.status = sim_status::launch_failed},
                             refusals);
        }
        auto const where = [&] { return s.view().device(); };
        CHECK(wait_or_report<sim_platform>(s.view(), where) == (refusals < 2));
        CHECK((node.now() >= 5ms) == (refusals < 2));
        CHECK(told.count(error_kind::platform_error) == (refusals < 2 ? refusals : 2));
    }
}

TEST_CASE("wait_or_report: an unknown device counts as one that cannot be waited for") {
    sim_node               node{{.on_report = sim_on_report::collect}};
    doubles::mishaps const told;
    sim_stream             s;
    auto const             nowhere = []() -> sim_device { throw sim_error{sim_status::refused}; };
    CHECK(wait_or_report<sim_platform>(s.view(), nowhere)); // it is not asked for
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_FALSE(wait_or_report<sim_platform>(s.view(), nowhere));
    CHECK(told.count(error_kind::platform_error) == 2);
}
