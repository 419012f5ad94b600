// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/guarded_options.hpp> // first: the header stands alone

#include "../doubles/contracts_throw.hpp"

#include <vram/probe/guarded.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("guarded_options: a fence is a power of two") {
    guarded_options const o;
    CHECK(o.fence == 256);
    CHECK(o.quarantine == 0);
    CHECK(o.fills);
    doubles::contracts_throw const here;
    CHECK_THROWS((guarded{host_resource{}, {.fence = 24}}));
    CHECK_THROWS((guarded{host_resource{}, {.fence = 8}}));
}
