// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_time.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("sim_time: the duration of a transfer is bytes over bandwidth, rounded up") {
    CHECK(sim_transfer_time(0, 1000000000) == sim_time{0});
    CHECK(sim_transfer_time(64, 1000000000) == sim_time{64});
    CHECK(sim_transfer_time(1, 25000000000) == sim_time{1});
    CHECK(sim_transfer_time(26, 25000000000) == sim_time{2});
}

TEST_CASE("sim_time: terabytes do not overflow") {
    CHECK(sim_transfer_time(std::size_t{1} << 40U, 1000000000) == sim_time{std::int64_t{1} << 40});
}
