// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_report.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace vram;

TEST_CASE("sim_report: the text has both operations and the missing edge") {
    sim_report r;
    r.kind           = sim_mistake::race;
    r.second         = {.name = "sum", .what = sim_event_of::kind::read, .number = 12, .actor = 3};
    r.first          = {.name = "copy", .what = sim_event_of::kind::write, .number = 9, .actor = 2};
    r.second.time    = sim_time{500};
    r.address        = 0xabc0;
    r.bytes          = 64;
    r.missing        = "stream 3 must wait";
    std::string text = r.text();
    CHECK(text.find("race: 64 bytes at 0xabc0") != std::string::npos);
    CHECK(text.find("`sum` #12 on stream 3 of device 0 reads it (called at 500 ns") !=
          std::string::npos);
    CHECK(text.find("in conflict with `copy` #9 on stream 2 of device 0 writes it") !=
          std::string::npos);
    CHECK(text.find("stream 3 must wait") != std::string::npos);
    CHECK(std::string{sim_race{r}.what()} == text);
}

TEST_CASE("sim_report: a host thread is named by its number") {
    sim_event_of const e{.name = "host", .host = true, .number = 4, .actor = 1};
    CHECK(e.title() == "`host` #4 by host thread 1");
}

TEST_CASE("sim_report: every kind of mistake has a different name") {
    std::set<std::string> names;
    int const             last = static_cast<int>(sim_mistake::thread_failed);
    for (int i = 0; i <= last; ++i) { names.insert(name(static_cast<sim_mistake>(i))); }
    CHECK(names.size() == static_cast<std::size_t>(last) + 1);
}
