// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/try_wait.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <string>

using namespace vram;
using namespace vram::detail;
using namespace std::chrono_literals;

TEST_CASE("try_wait: the host waits for a stream, a device, or in a function") {
    sim_node   node;
    sim_stream s;
    sim_launch(s, {.name = "first", .duration = 2ms});
    CHECK(try_wait<sim_platform>(s.view()));
    CHECK(node.now() >= 2ms);
    sim_launch(s, {.name = "second", .duration = 2ms});
    CHECK(try_wait<sim_platform>(sim_platform::current_device()));
    CHECK(node.now() >= 4ms);
    bool called = false;
    CHECK(try_wait<sim_platform>([&] { called = true; }));
    CHECK(called);
}

TEST_CASE("try_wait: a failed wait is reported and not thrown") {
    sim_node               node;
    doubles::mishaps const told;
    sim_stream             s;
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_FALSE(try_wait<sim_platform>(s.view()));
    CHECK_FALSE(try_wait<sim_platform>([] { throw std::runtime_error{"no device"}; }));
    CHECK(told.count(error_kind::platform_error) == 2);
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_FALSE(try_wait<sim_platform>(sim_platform::current_device()));
    CHECK(std::string{told.last().call} == "the wait for a device");
}
