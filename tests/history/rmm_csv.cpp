// SPDX-License-Identifier: Apache-2.0
#include <vram/history/rmm_csv.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

using namespace vram;

TEST_CASE("rmm_csv: RMM's columns come first, and one line is one event") {
    history_record record;
    record.resources.push_back({"pool", 1});
    record.tags.push_back("a, \"b\"");
    record.sites.push_back({"main.cpp", "main", 7});
    record.events.push_back({.kind       = memory_event_kind::allocated,
                             .has_stream = true,
                             .thread     = 3,
                             .tag        = 1,
                             .site       = 1,
                             .resource   = 1,
                             .time       = (3 * 3600 + 25 * 60 + 45) * 1'000'000'000LL + 1'234'567,
                             .memory     = 0x7F00,
                             .bytes      = 100,
                             .stream     = 5});
    record.events.push_back({.kind = memory_event_kind::refused, .resource = 1, .bytes = 9});
    record.events.push_back(
        {.kind = memory_event_kind::freed, .resource = 1, .memory = 0x8000, .bytes = 1}); // older
    record.events.push_back(
        {.kind = memory_event_kind::freed, .resource = 1, .memory = 0x7F00, .bytes = 100});
    CHECK(recorded_history::written(record, rmm_csv) ==
          "Thread,Time,Action,Pointer,Size,Stream,Tag,File,Line\n"
          "3,03:25:45.001234,allocate,0x7f00,100,5,\"a, \"\"b\"\"\",main.cpp,7\n"
          "0,00:00:00.000000,allocate failure,0x0,9,0,,,\n"
          "0,00:00:00.000000,free,0x7f00,100,0,,,\n");
}

TEST_CASE("rmm_csv: a random program") {
    std::string const text = recorded_history::written(recorded_history::sample(), rmm_csv);
    CHECK(std::count(text.begin(), text.end(), '\n') > 250);
    CHECK(text.find(",sample,") != text.npos);
}
