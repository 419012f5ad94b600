// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/memory_growth.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <sstream>
#include <string>

using namespace vram;

TEST_CASE("memory_growth: without growth it is false and says so") {
    memory_growth const none;
    CHECK_FALSE(none);
    CHECK(none.per_step() == 0);
    CHECK(none.text() == "The live bytes do not grow.");
}

TEST_CASE("memory_growth: the text has the growth per step, its begin and the lines") {
    memory_growth found{.since = 12, .until = 22, .bytes = 10 << 20, .live = 10 << 20};
    CHECK(found);
    CHECK(found.per_step() == 1 << 20);
    CHECK(found.text() ==
          "The live bytes grow by 1.00 MiB per step since step 12, 10.0 MiB in 10 steps.");
    found.live       = 11 << 20;
    found.live_since = 8;
    found.sites      = "\n  11.0 MiB more live";
    CHECK(found.text().ends_with(
        "Since step 8 the live bytes of the resource have risen by 11.0 MiB, at these "
        "lines:\n  11.0 MiB more live"));
    std::ostringstream out;
    out << found;
    CHECK(out.str() == found.text());
}

TEST_CASE("memory_growth: if only the device grows, the text names other memory") {
    memory_growth found{.of = growth_of::device, .until = 10, .bytes = 10 << 20, .live = 1 << 10};
    CHECK(found.text().find("grow by only 1.00 KiB: other memory of the device") !=
          std::string::npos);
    found.live = 10 << 20;
    CHECK(found.text().find("other memory") == std::string::npos);
    found = {.of = growth_of::reserved, .until = 10, .bytes = 10 << 20};
    CHECK(found.text().find("reserves more than is live") != std::string::npos);
}
