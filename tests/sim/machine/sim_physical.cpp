// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_physical.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_physical: new memory has a handle and no mapping") {
    sim_physical const memory;
    CHECK(memory.mappings == 0);
    CHECK(memory.handle);
}
