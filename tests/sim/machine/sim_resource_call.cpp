// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_resource_call.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE(
    "sim_resource_call: a function of the program that interrupts a resource is no part of it") {
    sim_node const node;
    sim_stream     s;
    CHECK_FALSE(detail::in_resource_call());
    sim_platform::begin_resource_call();
    sim_platform::begin_resource_call();
    bool inside = true;
    sim_interrupt::before(1, [&] { inside = detail::in_resource_call(); });
    s.synchronize();
    CHECK(sim_interrupt::end());
    CHECK_FALSE(inside);
    sim_platform::end_resource_call();
    CHECK(detail::in_resource_call());
    sim_platform::end_resource_call();
    CHECK_FALSE(detail::in_resource_call());
}
