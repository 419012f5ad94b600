// SPDX-License-Identifier: Apache-2.0
#include <vram/history/history_record.hpp> // first: the header stands alone

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("history_record: each table begins with an empty entry") {
    history_record const empty;
    CHECK(empty.tags == std::vector<std::string>{""});
    CHECK(empty.sites.at(0) == history_record::site{});
    CHECK(empty.resources.at(0) == history_record::resource{});
    CHECK(empty.stacks.at(0).empty());
    CHECK(empty == history_record{});
    history_record other;
    other.events.push_back({.bytes = 1});
    CHECK_FALSE(empty == other);
    CHECK_FALSE(history_record::chunk{.bytes = 1} == history_record::chunk{});
}
