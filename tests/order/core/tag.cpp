// SPDX-License-Identifier: Apache-2.0
#include <vram/order/core/tag.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("tag: two ranges overlap if they share a byte") {
    constexpr tag t{100, 200, 1, 0};
    static_assert(t.overlaps(150, 160) && t.overlaps(0, 101) && t.overlaps(199, 300));
    static_assert(!t.overlaps(0, 100) && !t.overlaps(200, 300));
    CHECK(t == tag{100, 200, 1, 0});
}
