// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/device_share_growth.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("device_share_growth: a share of what the device has, in whole pages") {
    device_share_growth const g{.percent = 10};
    CHECK(g({.needed = 1, .device_free = 1000_MiB}) == 100_MiB);
    CHECK(g({.needed = 1, .device_free = 1010_MiB}) == 100_MiB);
    CHECK(g({.needed = 200_MiB, .device_free = 1000_MiB}) == 200_MiB);
    CHECK(g({.needed = 7}) == 7); // the device is full, or not known
    CHECK(device_share_growth::asks_device);
}
