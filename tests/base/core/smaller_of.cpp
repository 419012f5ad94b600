// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/smaller_of.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {
/// Values that are equal by rank and differ by name.
struct named {
    int  rank;
    char name;

    friend constexpr bool operator<(named a, named b) { return a.rank < b.rank; }
};
} // namespace

TEST_CASE("smaller_of: the smaller and the larger value, in either order") {
    static_assert(smaller_of(2, 3) == 2 && smaller_of(3, 2) == 2 && smaller_of(-1, 0) == -1);
    static_assert(larger_of(2, 3) == 3 && larger_of(3, 2) == 3 && larger_of(-1, 0) == 0);
    static_assert(smaller_of<long>(1, 2L) == 1 && larger_of(0.5, 0.25) == 0.5);
    CHECK(smaller_of(7U, 7U) == 7U);
}

TEST_CASE("smaller_of: the first of two equal values") {
    static_assert(smaller_of(named{1, 'a'}, named{1, 'b'}).name == 'a');
    static_assert(larger_of(named{1, 'a'}, named{1, 'b'}).name == 'a');
    CHECK(larger_of(named{1, 'a'}, named{2, 'b'}).name == 'b');
}
