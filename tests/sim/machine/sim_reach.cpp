// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_reach.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE(
    "sim_reach: the host reaches no device memory, and a kernel that of its device and peers") {
    int const       somewhere = 0;
    sim_range const range{&somewhere, 4};
    sim_block       block;
    block.kind   = sim_kind::device;
    block.device = 1;
    sim_event_of step;
    step.device = 1;
    CHECK_FALSE(sim_reach(step, block, range, false, false));
    step.device = 0;
    CHECK_FALSE(sim_reach(step, block, range, false, true));
    CHECK_FALSE(sim_reach(step, block, range, true, false)); // a copy
    auto const peer = sim_reach(step, block, range, false, false);
    REQUIRE(peer);
    CHECK(peer->kind == sim_mistake::peer_access);
    CHECK(peer->missing == "enable peer access from device 0 to device 1");
    step.host       = true;
    auto const host = sim_reach(step, block, range, false, true);
    REQUIRE(host);
    CHECK(host->kind == sim_mistake::host_access);
    block.kind = sim_kind::pinned;
    CHECK_FALSE(sim_reach(step, block, range, false, false));
}
