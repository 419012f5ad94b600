// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/unlocked.hpp>

#include <vram/base/core/lock.hpp>

#include <doctest/doctest.h>

#include <stdexcept>

using namespace vram;

TEST_CASE(
    "unlocked: the lock is free during the call, and held after it, also if the call throws") {
    detail::lock const one;
    auto               held = one.hold();
    detail::unlocked(held, [&] {
        CHECK_FALSE(held.owns_lock());
        auto const other = one.hold();
    });
    CHECK(held.owns_lock());
    auto const throws = [] { throw std::runtime_error{"a failed wait"}; };
    CHECK_THROWS_AS(detail::unlocked(held, throws), std::runtime_error);
    CHECK(held.owns_lock());
}
