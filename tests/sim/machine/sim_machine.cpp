// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_machine.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_machine: states of streams and events are reused, and ids are not") {
    sim_machine       m{{.devices = 2}};
    std::unique_lock  held{m.mutex};
    sim_stream_state& a  = m.make_stream(m.turns.outside, 1, false);
    auto const        id = a.id.load();
    CHECK(a.device == 1);
    CHECK(m.at(1).streams.size() == 2); // with the default stream
    m.destroy_stream(a);
    CHECK(m.at(1).streams.size() == 1);
    sim_stream_state& b = m.make_stream(m.turns.outside, 0, true);
    CHECK(&a == &b);
    CHECK(b.id > id);
    sim_event_state& e = m.make_event(0, true);
    m.destroy_event(e);
    CHECK(&m.make_event(1, false) == &e);
    CHECK_FALSE(e.timed);
}

TEST_CASE("sim_machine: the host acquires a clock, and a stream acquires the host's") {
    sim_machine       m{{}};
    std::unique_lock  held{m.mutex};
    sim_stream_state& a = m.make_stream(m.turns.outside, 0, false);
    sim_stream_state& b = m.make_stream(m.turns.outside, 0, false);
    a.count             = a.vclock.advance(a.slot);
    CHECK_FALSE(b.vclock.includes(a.slot, a.count));
    m.acquire(m.turns.outside, a.vclock);
    m.acquire(b, m.turns.outside);
    CHECK(b.vclock.includes(a.slot, a.count));
}

TEST_CASE("sim_machine: with races off, vector clocks do not change") {
    sim_machine       m{{.checks = {.races = false}}};
    std::unique_lock  held{m.mutex};
    sim_stream_state& a = m.make_stream(m.turns.outside, 0, false);
    a.vclock.advance(a.slot);
    vector_clock const before = m.turns.outside.vclock;
    m.acquire(m.turns.outside, a.vclock);
    CHECK(m.turns.outside.vclock == before);
}

TEST_CASE("sim_machine: the legacy stream waits for unfinished work of a destroyed stream only if "
          "it was blocking") {
    sim_machine       m{{}};
    std::unique_lock  held{m.mutex};
    sim_operation     op;
    sim_stream_state& a = m.make_stream(m.turns.outside, 0, false);
    sim_stream_state& b = m.make_stream(m.turns.outside, 0, true);
    op.number           = 1;
    a.tail = b.tail = {&op, 1};
    b.waits         = {{&op, 1}, {&op, 7}}; // the second is over
    m.destroy_stream(a);
    CHECK(m.at(0).orphans.size() == 1);
    CHECK(m.at(0).blocking_orphans.empty());
    m.destroy_stream(b);
    CHECK(m.at(0).orphans.size() == 3);
    CHECK(m.at(0).blocking_orphans.size() == 2);
    op.number = 0; // it ends
    m.at(0).orphans.sweep();
    m.at(0).blocking_orphans.sweep();
    CHECK(m.at(0).orphans.empty());
    CHECK(m.at(0).blocking_orphans.empty());
}

TEST_CASE("sim_machine: many destroyed streams leave few orphans once their work is complete") {
    sim_machine      m{{}};
    std::unique_lock held{m.mutex};
    sim_operation    op;
    for (int i = 0; i < 1000; ++i) {
        sim_stream_state& s = m.make_stream(m.turns.outside, 0, true);
        op.number           = static_cast<std::uint64_t>(i) + 1;
        s.tail              = {&op, op.number}; // complete as soon as the next one has its number
        m.destroy_stream(s);
    }
    CHECK(m.at(0).orphans.size() < 10);
    CHECK(m.at(0).blocking_orphans.size() < 10);
}

TEST_CASE("sim_machine: the sets of a device have each stream once") {
    sim_machine                    m{{}};
    std::unique_lock               held{m.mutex};
    std::vector<sim_stream_state*> all;
    for (int i = 0; i < 5; ++i) { all.push_back(&m.make_stream(m.turns.outside, 0, true)); }
    sim_stream_set& set = m.at(0).active;
    set.clear();
    for (int round = 0; round < 2; ++round) {
        for (sim_stream_state* const s : all) { set.add(*s); }
    }
    CHECK(set.size() == 5);
    set.remove(*all[1]);
    set.remove(*all[1]);
    CHECK(set.size() == 4);
    m.destroy_stream(*all[4]);
    CHECK(set.size() == 3);
    set.add(*all[1]);
    std::vector<sim_stream_state*> in{set.begin(), set.end()};
    std::sort(in.begin(), in.end());
    std::vector<sim_stream_state*> expected{all[0], all[1], all[2], all[3]};
    std::sort(expected.begin(), expected.end());
    CHECK(in == expected);
    set.clear();
    set.add(*all[0]);
    CHECK(set.size() == 1);
}
