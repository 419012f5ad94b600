// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/memory_counters.hpp> // first: the header stands alone

#include <vram/history/core/block_story.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace vram;
using kind = memory_event_kind;

TEST_CASE("memory_counters: live and reserved bytes, and those of each tag") {
    history_record record;
    record.tags.push_back("cache");
    record.resources.push_back({"pool", 1});
    record.chunks.push_back({0x1000, 0x1000, 1});
    auto const add = [&](kind k, std::uint64_t memory, std::uint64_t bytes, std::uint32_t tag) {
        record.events.push_back(
            {.kind = k, .tag = tag, .resource = 1, .memory = memory, .bytes = bytes});
    };
    add(kind::freed, 0x1100, 64, 0); // older than the record
    add(kind::allocated, 0x1000, 100, 1);
    add(kind::freed, 0x1000, 100, 0);
    add(kind::chunk_removed, 0x1000, 0x1000, 0);
    record.chunks.clear();
    add(kind::refused, 0, 5, 0);
    detail::block_story const story{record};
    detail::memory_counters   sums{record, story};
    CHECK(sums.live() == 64);
    CHECK(sums.reserved() == 0x1000);
    auto const& steps = story.steps();
    REQUIRE(steps.size() == 5);
    sums.follow(steps[0]);
    CHECK(sums.live() == 0);
    CHECK(sums.tag() == 0);
    sums.follow(steps[1]);
    CHECK(sums.live_changed());
    CHECK(sums.of_tag(1) == 100);
    sums.follow(steps[2]);
    CHECK(sums.tag() == 1); // of the allocation
    CHECK(sums.of_tag(1) == 0);
    sums.follow(steps[3]);
    CHECK(sums.reserved_changed());
    CHECK(sums.reserved() == 0);
    CHECK(std::string{detail::name_of_instant(record, steps[4])} == "refused");
    CHECK(detail::name_of_instant(record, steps[0]) == nullptr);
}
