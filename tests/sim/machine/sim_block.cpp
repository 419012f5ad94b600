// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_block.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_block: the end is begin plus bytes, and a new block is live") {
    sim_block b;
    b.begin = 4096;
    b.bytes = 100;
    CHECK(b.end() == 4196);
    CHECK_FALSE(b.freed);
    CHECK_FALSE(b.busy);
    CHECK(b.history.size() == 0);
}
