// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/tally.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("tally: it has a value, a peak and a total") {
    tally t;
    t.add(10);
    t.sub(4);
    t.add(2);
    CHECK(t == tally{8, 10, 12});
}
