// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/owner_list.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("owner_list: the figures of one tag and line are added up over threads") {
    call_site const one = call_site::current(), two = call_site::current();
    call_site const other = call_site::current();
    auto const      all   = merged_owners({{.at = other, .live = 1, .peak = 1},
                                           {.at = one, .live = 10, .blocks = 1, .peak = 20},
                                           {.at = two, .live = 5, .blocks = 2, .peak = 30}});
    REQUIRE(all.size() == 2);
    tracked_owner const& both = is_of(all[0], {}, one) ? all[0] : all[1];
    CHECK(both.live == 15);
    CHECK(both.blocks == 3);
    CHECK(both.peak == 50);
    CHECK_FALSE(both.peak_is_exact);
    CHECK_FALSE(is_of(both, {}, other));
    CHECK(sorted_owners(all)[0].live == 15);
    auto const peaks = sorted_owners({{.peak = 3}, {.at_peak = 1}, {.live = 2}, {.peak = 4}});
    CHECK(peaks[0].live == 2);
    CHECK(peaks[1].at_peak == 1);
    CHECK(peaks[2].peak == 4);
}
