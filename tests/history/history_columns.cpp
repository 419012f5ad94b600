// SPDX-License-Identifier: Apache-2.0
#include <vram/history/history_columns.hpp> // first: the header stands alone

#include "recorded.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace vram;

// tests/history/read_history.cpp reads the files.

TEST_CASE("history_columns: an event takes at most 15 bytes") {
    history_record const all = recorded_history::sample(20'000);
    CHECK(all.events.size() > 15'000);
    CHECK(recorded_history::written(all, history_columns).size() <= 15 * all.events.size());
}

TEST_CASE("history_columns: an empty record") {
    CHECK(recorded_history::written({}, history_columns) ==
          std::string{"VRAMHIS1"} + std::string(10, '\0') + std::string(4, '\0'));
}
