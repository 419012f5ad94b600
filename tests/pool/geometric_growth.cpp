// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/geometric_growth.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace vram;

TEST_CASE("geometric_growth: a chunk is a share of the reserved bytes, between the need and the "
          "least chunk") {
    geometric_growth const g{.share = 0.5, .least = 4_MiB, .unit = 2_MiB};
    CHECK(g({.needed = 2_MiB}) == 4_MiB);
    CHECK(g({.needed = 1_MiB}) == 2_MiB); // small ones have chunks of their own: smaller ones
    CHECK(g({.needed = 5_MiB}) == 6_MiB);
    CHECK(g({.needed = 1, .held = 100_MiB}) == 50_MiB);
    CHECK(g({.needed = 60_MiB, .held = 100_MiB}) == 60_MiB);
}

TEST_CASE("geometric_growth: a size that cannot be rounded up becomes unsatisfiable") {
    CHECK(geometric_growth{}({.needed = unsatisfiable - 1}) == unsatisfiable);
}

TEST_CASE("geometric_growth: the number of chunks grows with the logarithm of the reserved bytes") {
    geometric_growth const g;
    std::size_t            held   = 0;
    int                    chunks = 0;
    for (; held < 80_GiB; ++chunks) { held += g({.needed = 1, .held = held}); }
    CHECK(chunks < 400);
}

TEST_CASE("geometric_growth: invalid numbers are refused") {
    doubles::contracts_throw const throwing;
    for (geometric_growth const& bad :
         {geometric_growth{.share = -0.1}, geometric_growth{.share = std::nan("")},
          geometric_growth{.share = 1e30}, geometric_growth{.unit = 3_MiB},
          geometric_growth{.unit = 0}}) {
        CHECK_THROWS_AS((void)bad({.needed = 1_MiB, .held = 1_GiB, .device_free = 1_GiB}),
                        doubles::broken_contract);
    }
}
