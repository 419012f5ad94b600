// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_state.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_state: the free bytes of a device exclude those of other processes, and are never "
          "negative") {
    sim_device_state d;
    d.capacity = 100;
    CHECK(d.free() == 100);
    d.used  = 30;
    d.taken = 50;
    CHECK(d.free() == 20);
    d.taken = 90;
    CHECK(d.free() == 0);
}
