// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/gate.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <chrono>

using namespace vram;
using namespace vram::detail;

TEST_CASE("gate: one thread waits until another notifies") {
    gate g;
    bool ready = false;
    int  seen  = 0;
    {
        worker const waiting{0, [&] {
                                 auto held = g.hold();
                                 g.wait(held, [&] { return ready; });
                                 seen = 1;
                             }};
        {
            auto const held = g.hold();
            CHECK(seen == 0);
            ready = true;
        }
        g.notify();
    }
    CHECK(seen == 1);
}

TEST_CASE("gate: a condition that is true is not waited for") {
    gate g;
    auto held = g.hold();
    g.wait(held, [] { return true; });
    CHECK(held.owns_lock());
}

namespace gates {
/// Balls go to and fro between two threads, in order; `wait(held, ready)` is how they wait.
void play(gate& g, auto wait) {
    int  turn   = 0;
    auto player = [&](int mine) {
        for (int i = 0; i < 500; ++i) {
            {
                auto held = g.hold();
                wait(held, [&] { return turn % 2 == mine; });
                ++turn;
            }
            g.notify();
        }
    };
    {
        worker const a{0, [&] { player(0); }}, b{0, [&] { player(1); }};
    }
    CHECK(turn == 1000);
}
} // namespace gates

TEST_CASE("gate: two threads alternate through it in order") {
    gate g;
    gates::play(g, [&](auto& held, auto ready) { g.wait(held, ready); });
}

TEST_CASE("gate: wait_for ends after a time, with or without the condition") {
    gate g;
    auto held = g.hold();
    CHECK_FALSE(g.wait_for(held, std::chrono::milliseconds{1}, [] { return false; }));
    CHECK(held.owns_lock());
    CHECK(g.wait_for(held, std::chrono::hours{1}, [] { return true; }));
}

TEST_CASE("gate: wait_awake ends with a notification or after a time") {
    gate g;
    auto held = g.hold();
    CHECK_FALSE(g.wait_awake(held, std::chrono::milliseconds{1}, [] { return false; }));
    CHECK(held.owns_lock());
    CHECK(g.wait_awake(held, std::chrono::nanoseconds{0}, [] { return true; }));
    held.unlock();
    gates::play(g, [&](auto& mine, auto ready) {
        CHECK(g.wait_awake(mine, std::chrono::hours{1}, ready));
    });
}
