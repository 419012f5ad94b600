// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/pool_options.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("pool_options: by default nothing is taken at first and everything may be") {
    pool_options const o;
    CHECK(o.initial_size == 0);
    CHECK(o.max_size == unsatisfiable);
    CHECK_FALSE(o.graphs);
}
