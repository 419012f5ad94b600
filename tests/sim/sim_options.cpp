// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_options.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("sim_options: the defaults are one device and all checks that a correct program passes") {
    sim_options const o;
    CHECK(o.devices == 1);
    CHECK(o.checks.races);
    CHECK(o.checks.frees);
    CHECK(o.checks.leaks);
    CHECK_FALSE(o.checks.uninitialised);
    CHECK_FALSE(o.checks.capacity);
    CHECK(o.call_cost == sim_time{0});
    CHECK(o.query_cost > sim_time{0}); // a loop of queries must end
    CHECK(o.host_copy_bandwidth == 0); // the host copies in no time
    CHECK_FALSE(o.host_page_tables);
    CHECK(o.threads == sim_order::by_time);
}
