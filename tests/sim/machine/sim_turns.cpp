// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_turns.hpp> // first: the header must stand alone

#include <vram/base/core/lock.hpp>

#include <doctest/doctest.h>

#include <mutex>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_turns: a thread starts with the clock of the thread that started it, and leaves no "
          "trace") {
    sim_options const o;
    sim_schedule      schedule{o};
    sim_turns         turns{schedule, o};
    std::mutex        mutex;
    std::unique_lock  held{mutex};
    turns.outside.clock = sim_time{70};
    turns.outside.advance();
    sim_host& a = turns.enter(turns.outside, 1);
    CHECK(a.clock == sim_time{70});
    CHECK(a.number == 1);
    CHECK(a.vclock.includes(0, 1));
    CHECK(turns.participants() == 1);
    CHECK_FALSE(turns.outside_may_step()); // a has the turn
    turns.begin(held, a);                  // at once
    turns.preemption_point(held, a);
    turns.preemption_point(held, a); // no other thread is due
    turns.leave(a);
    turns.hand_off(held);
    CHECK(turns.participants() == 0);
    CHECK(turns.outside_may_step());
}

TEST_CASE("sim_turns: a thread is not ordered after later work of the thread that started it") {
    sim_options const o;
    sim_schedule      schedule{o};
    sim_turns         turns{schedule, o};
    turns.outside.advance();
    sim_host& a = turns.enter(turns.outside, 1);
    CHECK_FALSE(a.vclock.includes(0, turns.outside.vclock[0]));
}

TEST_CASE("sim_turns: a thread that holds a lock is not preempted") {
    sim_options const o;
    sim_schedule      schedule{o};
    sim_turns         turns{schedule, o};
    std::mutex        mutex;
    std::unique_lock  held{mutex};
    sim_host&         a = turns.enter(turns.outside, 1);
    sim_host&         b = turns.enter(a, 2);
    turns.preemption_point(held, a);
    a.clock = sim_time{100};
    CHECK(b.clock < a.clock); // b is due
    lock              other;
    lock::guard const guard = other.hold();
    turns.preemption_point(held, a); // would hand over to a thread that is not there
    turns.leave(b);
    turns.leave(a);
}
