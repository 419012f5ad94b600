// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/exact_growth.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("exact_growth: a chunk has the needed size, independent of the reserved bytes") {
    CHECK(exact_growth{}({.needed = 512}) == 512);
    CHECK(exact_growth{}({.needed = 256, .held = 1 << 30, .device_free = 1 << 30}) == 256);
    CHECK_FALSE(exact_growth::asks_device);
}
