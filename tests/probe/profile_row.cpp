// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/profile_row.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("profile_row: times have a sum, a mean, the least and the greatest") {
    profile_row::times t;
    CHECK(t.mean() == 0);
    t.add(30);
    t.add(10);
    CHECK(t.count == 2);
    CHECK(t.total == 40);
    CHECK(t.mean() == 20);
    CHECK(t.least == 10);
    CHECK(t.most == 30);
    profile_row::times more;
    t.merge(more);
    CHECK(t.least == 10);
    more.add(5);
    t.merge(more);
    CHECK(t.least == 5);
    CHECK(t.count == 3);
}

TEST_CASE("profile_row: the rows of threads are merged") {
    profile_row all{.runs = 1, .live = 10, .peak = 100, .allocations = 1};
    all.merge({.runs          = 2,
               .has_memory    = true,
               .live          = -30,
               .peak          = 50,
               .peak_is_exact = false,
               .allocations   = 4});
    CHECK(all.runs == 3);
    CHECK(all.has_memory);
    CHECK(all.live == -20);
    CHECK(all.peak == 100);
    CHECK_FALSE(all.peak_is_exact);
    CHECK(all.allocations == 5);
    all.merge({.peak = 200});
    CHECK(all.peak == 200);
}
