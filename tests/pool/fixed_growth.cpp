// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/fixed_growth.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("fixed_growth: chunks have one size, and a larger request has its own chunk") {
    CHECK(fixed_growth{}({.needed = 1}) == 64_MiB);
    CHECK(fixed_growth{.step = 1_MiB}({.needed = 1_MiB}) == 1_MiB);
    CHECK(fixed_growth{.step = 1_MiB}({.needed = 1_MiB + 1, .held = 5_MiB}) == 1_MiB + 1);
}
