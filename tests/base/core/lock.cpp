// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/lock.hpp> // first: the header stands alone

#include <vram/base/core/worker.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;
using namespace vram::detail;

TEST_CASE("lock: one thread at a time holds it") {
    lock       one;
    long       sum = 0;
    auto const add = [&] {
        for (int i = 0; i < 10'000; ++i) {
            auto const held = one.hold();
            ++sum;
        }
    };
    { worker const a{0, add}, b{0, add}; }
    CHECK(sum == 20'000);
}

TEST_CASE("lock: a moved lock is unlocked") {
    static_assert(std::is_nothrow_move_constructible_v<lock> &&
                  std::is_nothrow_move_assignable_v<lock>);
    static_assert(!std::is_copy_constructible_v<lock>);
    lock       first;
    auto const held   = first.hold();
    lock       second = std::move(first);
    CHECK(second.hold().owns_lock());
}

TEST_CASE("lock: the lock for a single thread has no cost") {
    static_assert(std::is_empty_v<no_lock>);
    auto const held = no_lock{}.hold();
    CHECK(sizeof held == 1);
}
