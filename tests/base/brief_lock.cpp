// SPDX-License-Identifier: Apache-2.0
#include <vram/base/brief_lock.hpp> // first: the header stands alone

#include <vram/base/worker.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>
#include <utility>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("brief_lock: one at a time, however many want it") {
    brief_lock one;
    long       sum  = 0;
    auto const some = [&] {
        for (int i = 0; i < 10'000; ++i) {
            auto held = one.hold();
            ++sum;
            held.unlock();
            held.lock();
            ++sum;
        }
    };
    { worker const a{0, some}, b{1, some}, c{2, some}, d{3, some}; }
    CHECK(sum == 80'000);
}

TEST_CASE("brief_lock: it moves, and the new place is free") {
    static_assert(std::is_nothrow_move_constructible_v<brief_lock> &&
                  std::is_nothrow_move_assignable_v<brief_lock>);
    static_assert(!std::is_copy_constructible_v<brief_lock>);
    brief_lock first;
    auto const held   = first.hold();
    brief_lock second = std::move(first);
    CHECK(second.hold().owns_lock());
}

TEST_CASE("brief_lock: whoever has it first gives it up to the others, whenever they come") {
    for (int round = 0; round < 300; ++round) {
        brief_lock one;
        long       sum  = 0;
        auto const some = [&] {
            for (int i = 0; i < 200; ++i) {
                auto const held   = one.hold();
                long const before = sum;
                sum               = before + 1;
            }
        };
        {
            worker const first{0, some};
            if (round % 2 == 0) { some(); }
            worker const second{1, some};
        }
        CHECK(sum == (round % 2 == 0 ? 600 : 400));
    }
}

TEST_CASE("brief_lock: a guard that has moved lets the next thread in, though the first rests") {
    brief_lock lock;
    {
        auto first = lock.hold();
        auto moved = std::move(first);
        CHECK(moved.owns_lock());
        CHECK_FALSE(first.owns_lock());
    }
    std::atomic<bool> in = false;
    std::thread       next{[&] {
        auto const held = lock.hold();
        in              = true;
    }};
    for (int i = 0; i < 5000 && !in; ++i) { std::this_thread::sleep_for(1ms); }
    CHECK(in);
    { auto const again = lock.hold(); } // which lets it in if it was not
    next.join();
}
