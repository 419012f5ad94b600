// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/report_sections.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using detail::report_sections;

TEST_CASE("report_sections: without figures there is no text") {
    CHECK(report_sections{}.text().empty());
}

TEST_CASE("report_sections: a figure of an outer layer is not replaced") {
    report_sections all;
    all.keep(all.refused, std::uint64_t{3});
    all.keep(all.refused, std::uint64_t{5});
    all.keep(all.retried, std::uint64_t{0});
    CHECK(all.text() == "\n3 out of memory, 0 retried\n");
    all.add_owners(
        {{.live = 10, .blocks = 1, .allocations = 3, .allocated = 30}},
        {{.bytes = 10, .stream = {.id = 7}}, {.bytes = 1, .stream = {.id = 7}}, {.bytes = 2}});
    all.add_owners({}, {}); // of an inner layer
    CHECK(*all.freed == 20);
    // Another thread allocated two blocks after the list of tags was made.
    CHECK(*all.blocks == 1);
    CHECK(*all.frees == 2);
    CHECK(all.text().find("\n7          11 B       2\n") != std::string::npos);
    CHECK(all.text().find("\nno stream   2 B       1\n") != std::string::npos);
}
