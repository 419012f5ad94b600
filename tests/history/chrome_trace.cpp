// SPDX-License-Identifier: Apache-2.0
#include <vram/history/chrome_trace.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;

// tests/examples/record_history.py reads a trace with Python's json.

TEST_CASE("chrome_trace: a counter of live and reserved bytes, and an event for each block") {
    std::string const text = recorded_history::written(recorded_history::sample(), chrome_trace);
    CHECK(text.starts_with(R"({"otherData":{"overwritten_events":0},"traceEvents":[)"));
    CHECK(text.find(R"({"ph":"C","name":"tag sample")") != text.npos);
    CHECK(text.find(R"("args":{"live":5000,"reserved":)") != text.npos);
    CHECK(text.find(R"("Bytes":5000,"Total Allocated":5000)") != text.npos);
    CHECK(text.find(R"("Bytes":-)") != text.npos);
    CHECK(text.find(R"({"ph":"i","name":"the end, \"quoted\"")") != text.npos);
}

TEST_CASE("chrome_trace: times have three decimals") {
    history_record record;
    record.events.push_back({.kind = memory_event_kind::refused, .time = 1'234'005});
    CHECK(recorded_history::written(record, chrome_trace).find(R"("ts":1234.005)") !=
          std::string::npos);
}
