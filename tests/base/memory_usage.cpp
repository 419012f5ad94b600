// SPDX-License-Identifier: Apache-2.0
#include <vram/base/memory_usage.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("memory_usage: what is not known is zero, and figures compare as a whole") {
    memory_usage usage;
    CHECK(usage == memory_usage{.live = 0, .upstream = 0});
    usage.live = 1;
    CHECK_FALSE(usage == memory_usage{});
}
