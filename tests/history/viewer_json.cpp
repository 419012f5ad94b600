// SPDX-License-Identifier: Apache-2.0
#include <vram/history/viewer_json.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;

// tests/examples/record_history.py compares the document with that of viewer_pickle.

TEST_CASE("viewer_json: the document of an empty history") {
    CHECK(recorded_history::written({}, viewer_json) ==
          R"({"segments":[],"device_traces":[[]],"allocator_settings":)"
          R"({"trace_alloc_overflowed":false,"vram_events":0,"vram_events_overwritten":0},)"
          R"("external_annotations":[]})"
          "\n");
}

TEST_CASE("viewer_json: a live block has its place, its line and its tag") {
    std::string const text = recorded_history::written(recorded_history::sample(), viewer_json);
    CHECK(text.find(R"("size":5000,"requested_size":5000,"state":"active_allocated")") !=
          text.npos);
    CHECK(text.find(R"({"action":"oom","device_free":0,"size":1125899906842624)") != text.npos);
    CHECK(text.find(R"("user_metadata":"the end, \"quoted\"")") != text.npos);
    CHECK(text.find(R"({"name":"tag sample","filename":"","line":0})") != text.npos);
    CHECK(text.find(R"("device_traces":[[],[)") != text.npos); // device 1
}
