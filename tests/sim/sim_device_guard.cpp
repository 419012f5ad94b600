// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_device_guard.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("sim_device_guard: guards nest, and each restores the previous device") {
    sim_node const node{{.devices = 3}};
    {
        sim_device_guard const one{sim_device{1}};
        CHECK(sim_device::current().index() == 1);
        {
            sim_device_guard const two{sim_device{2}};
            CHECK(sim_device::current().index() == 2);
        }
        CHECK(sim_device::current().index() == 1);
    }
    CHECK(sim_device::current().index() == 0);
}
