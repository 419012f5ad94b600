// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/meeting_of.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;
using namespace vram::detail;

TEST_CASE("meeting_of: threads wait in real time, and on the simulated platform at its gate") {
    CHECK(std::is_same_v<meeting_of<host_platform>, meeting>);
    CHECK(std::is_same_v<meeting_of<sim_platform>, sim_platform::gate>);
}
