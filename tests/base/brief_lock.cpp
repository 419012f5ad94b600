// SPDX-License-Identifier: Apache-2.0
#include <vram/base/brief_lock.hpp> // first: the header stands alone

#include <vram/base/worker.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;

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
