// SPDX-License-Identifier: Apache-2.0
#include <vram/history/viewer_pickle.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;

// tests/examples/record_history.py loads a pickle with Python and checks it as the viewer reads it.

TEST_CASE("viewer_pickle: one pickle of protocol 2") {
    std::string const text = recorded_history::written(recorded_history::sample(), viewer_pickle);
    CHECK(text.starts_with("\x80\x02}("));
    CHECK(text.ends_with("u."));
    CHECK(text.find("device_traces") != text.npos);
    CHECK(text.find("tag sample") != text.npos);
}

TEST_CASE("viewer_pickle: an event takes less than 200 bytes, and names occur once") {
    history_record const record = recorded_history::sample(3000);
    std::string const    text   = recorded_history::written(record, viewer_pickle);
    CHECK(text.size() < 200 * record.events.size());
    CHECK(text.find("free_requested") == text.rfind("free_requested"));
}
