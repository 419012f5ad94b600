// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/memory_info.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("memory_info: it is two numbers that can be compared") {
    vram::memory_info const a{.free = 1, .total = 2};
    CHECK(a == vram::memory_info{1, 2});
    CHECK(a != vram::memory_info{});
}
