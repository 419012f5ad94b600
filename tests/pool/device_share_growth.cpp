// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/device_share_growth.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace vram;

TEST_CASE("device_share_growth: a chunk is a share of the device's memory, in whole pages") {
    device_share_growth const g{.percent = 10};
    CHECK(g({.needed = 1, .device_free = 1000_MiB}) == 100_MiB);
    CHECK(g({.needed = 1, .device_free = 1010_MiB}) == 100_MiB);
    CHECK(g({.needed = 200_MiB, .device_free = 1000_MiB}) == 200_MiB);
    CHECK(g({.needed = 7}) == 7); // the device is full, or not known
    CHECK(device_share_growth::asks_device);
}

TEST_CASE("device_share_growth: invalid numbers are refused") {
    doubles::contracts_throw const throwing;
    for (device_share_growth const& bad :
         {device_share_growth{.percent = -1}, device_share_growth{.percent = 101},
          device_share_growth{.percent = std::nan("")}}) {
        CHECK_THROWS_AS((void)bad({.needed = 1_MiB, .held = 1_GiB, .device_free = 1_GiB}),
                        doubles::broken_contract);
    }
}
