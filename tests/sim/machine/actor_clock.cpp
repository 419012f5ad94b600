// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/actor_clock.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("actor_clock: the counter of an unknown actor is 0") {
    actor_clock const c;
    CHECK(c[0] == 0);
    CHECK(c[1000] == 0);
    CHECK(c.includes(7, 0));
    CHECK_FALSE(c.includes(7, 1));
}

TEST_CASE("actor_clock: advance increments an actor's counter") {
    actor_clock c;
    CHECK(c.advance(3) == 1);
    CHECK(c.advance(3) == 2);
    CHECK(c[2] == 0);
}

TEST_CASE("actor_clock: a join takes the larger of each pair of counters") {
    actor_clock a, b;
    a.raise(0, 5);
    a.raise(1, 1);
    b.raise(1, 4);
    b.raise(9, 2);
    a.join(b);
    CHECK(a[0] == 5);
    CHECK(a[1] == 4);
    CHECK(a[9] == 2);
    CHECK_FALSE(b.includes(0, 1));
}

TEST_CASE("actor_clock: raise never lowers a counter") {
    actor_clock c;
    c.raise(2, 9);
    c.raise(2, 3);
    CHECK(c[2] == 9);
}

TEST_CASE("actor_clock: trailing zeros do not matter for equality") {
    actor_clock a, b;
    a.raise(0, 1);
    b.raise(0, 1);
    b.raise(5, 0);
    CHECK(a == b);
    b.raise(5, 1);
    CHECK_FALSE(a == b);
}

TEST_CASE("actor_clock: a copy of an actor's clock is not changed by the actor's later steps") {
    actor_clock s, t;
    s.advance(0);
    actor_clock const event = s;
    t.advance(1);
    s.join(t);
    s.advance(0);
    CHECK(event[0] == 1);
    CHECK(event[1] == 0);
    CHECK(s[0] == 2);
    CHECK(s[1] == 1);
}

TEST_CASE("actor_clock: joins of copies of one clock by two holders stay apart") {
    actor_clock s, t, left, right;
    s.advance(0);
    t.advance(1);
    left = right = s;
    left.join(t);
    s.join(t);
    s.advance(0);
    CHECK(right[1] == 0);
    right.join(s);
    CHECK(right[1] == 1);
    CHECK(left[0] == 1);
    CHECK(right[0] == 2);
}

namespace {

/// A vector clock beside a plain array with the same counters.
struct clock_and_model {
    actor_clock                clock;
    std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(80);

    void join(clock_and_model const& other) {
        clock.join(other.clock);
        for (std::size_t i = 0; i < counts.size(); ++i) {
            counts[i] = std::max(counts[i], other.counts[i]);
        }
    }
    void advance(std::size_t actor) { CHECK(clock.advance(actor) == ++counts[actor]); }
    void check() const {
        bool same = true;
        for (std::size_t i = 0; i < counts.size(); ++i) { same = same && clock[i] == counts[i]; }
        CHECK(same);
    }
};

} // namespace

TEST_CASE("actor_clock: agrees with arrays in random programs of actors, events and tokens") {
    for (unsigned seed = 0; seed < 60; ++seed) {
        std::mt19937                 random{seed};
        std::size_t const            actors = 2 + random() % (seed % 2 == 0 ? 6 : 70);
        std::vector<clock_and_model> all(actors), events(12), tokens(3);
        for (std::size_t i = 0; i < actors; ++i) { all[i].advance(i); }
        for (int step = 0; step < 400; ++step) {
            std::size_t const i = random() % actors;
            clock_and_model&  a = all[i];
            switch (random() % 9) {
            case 0: a.advance(i); break;
            case 1:
                a.advance(i);
                events[random() % events.size()] = a;
                break;
            case 2: events[random() % events.size()] = events[random() % events.size()]; break;
            case 3:
                a.join(all[random() % actors]); // a wait for a stream, by the host
                if (random() % 2 == 0) { a.advance(i); }
                break;
            case 4: tokens[random() % tokens.size()].join(a); break;
            case 5:
                a.join(tokens[random() % tokens.size()]);
                a.advance(i);
                break;
            case 6: { // a new actor with the slot of one that has ended and happened before
                clock_and_model next = all[random() % actors];
                if (next.counts[i] != a.counts[i] || a.clock.joined()) { break; }
                next.advance(i);
                a = next;
                break;
            }
            default: a.join(events[random() % events.size()]); a.advance(i);
            }
            a.check();
        }
        for (auto const* set : {&all, &events, &tokens}) {
            for (clock_and_model const& each : *set) { each.check(); }
        }
        CHECK((all[0].clock == all[1].clock) == (all[0].counts == all[1].counts));
    }
}
