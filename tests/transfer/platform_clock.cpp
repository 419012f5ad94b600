// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/platform_clock.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <chrono>

using namespace vram;

TEST_CASE("platform_clock: it is virtual on the simulator, and advances on real platforms") {
    sim_node   node;
    auto const before = platform_clock<sim_platform>::now();
    node.work(std::chrono::microseconds{7});
    CHECK(platform_clock<sim_platform>::now() - before == 7000);

    auto const first = platform_clock<host_platform>::now();
    while (platform_clock<host_platform>::now() == first) {}
    CHECK(platform_clock<host_platform>::now() > first);
}
