// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/owner_table.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using namespace vram::detail;

TEST_CASE("owner_table: it has a row for each owner, and counts those that are left out") {
    tagged const        scope{"owner_table"};
    tracked_owner const a{.owner         = current_tag(),
                          .live          = 2048,
                          .blocks        = 2,
                          .peak          = 4096,
                          .at_peak       = 1024,
                          .allocations   = 7,
                          .peak_is_exact = false};
    tracked_owner const b{.allocations = 1};
    std::string const   all = owner_table({a, b}, owner_kind::tag, 10);
    CHECK(all == "tag              live  blocks  at the peak     own peak  allocations\n"
                 "owner_table  2.00 KiB       2     1.00 KiB  <= 4.00 KiB            7\n"
                 "(no tag)          0 B       0          0 B          0 B            1\n");
    std::string const one = owner_table({a, b, b}, owner_kind::tag, 1);
    CHECK(one.find("and 2 more\n") != std::string::npos);
    CHECK(one.find("(no tag)") == std::string::npos);
    CHECK(owner_table({b}, owner_kind::site, 1).find("(unknown)") != std::string::npos);
    CHECK(owner_table({b}, owner_kind::thread, 1).find("thread") == 0);
    CHECK(short_line({}).empty());
    CHECK(short_line(call_site::current()).find("owner_table.cpp:") == 0);
}
