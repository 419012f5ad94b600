// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/first_chunks.hpp> // first: the header stands alone

#include <doctest/doctest.h>

// Records of pools are tested in block_story.cpp.

using namespace vram;
using namespace vram::detail;

TEST_CASE("first_chunks: chunks that were added are not there at the start, removed ones are") {
    history_record record;
    record.chunks = {{.memory = 0x1000, .bytes = 0x100, .resource = 1},
                     {.memory = 0x3000, .bytes = 0x200, .resource = 1}};
    history_record::event added;
    added.kind     = memory_event_kind::chunk_added;
    added.memory   = 0x3000;
    added.bytes    = 0x200;
    added.resource = 1;
    history_record::event removed;
    removed.kind     = memory_event_kind::chunk_removed;
    removed.memory   = 0x2000;
    removed.bytes    = 0x80;
    removed.resource = 1;
    record.events    = {added, removed};
    auto const first = first_chunks(record);
    REQUIRE(first.size() == 2);
    CHECK(first[0].memory == 0x1000);
    CHECK(first[0].bytes == 0x100);
    CHECK(first[1].memory == 0x2000);
    CHECK(first[1].bytes == 0x80);
}

TEST_CASE("first_chunks: a chunk that grew in the record is as small as before") {
    history_record record;
    record.chunks = {{.memory = 0x1000, .bytes = 0x300, .resource = 1}};
    history_record::event more;
    more.kind        = memory_event_kind::chunk_added;
    more.memory      = 0x1100;
    more.bytes       = 0x200;
    more.resource    = 1;
    record.events    = {more};
    auto const first = first_chunks(record);
    REQUIRE(first.size() == 1);
    CHECK(first[0].bytes == 0x100);
}
