// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/tick_clock.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

using vram::detail::tick_clock;

TEST_CASE("tick_clock: it advances, and a conversion gives the time since 1970") {
    tick_clock const clock;
    auto const       since_1970 = [] {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::system_clock::now().time_since_epoch())
            .count();
    };
    auto const before = since_1970();
    auto const first  = tick_clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    auto const second = tick_clock::now();
    auto const after  = since_1970();
    auto const made   = clock.conversion();
    CHECK(second > first);
    CHECK(made.nanoseconds(second) - made.nanoseconds(first) >= 15'000'000);
    constexpr auto tolerance = 5'000'000; // of a virtual machine that is interrupted
    CHECK(made.nanoseconds(first) >= before - tolerance);
    CHECK(made.nanoseconds(second) <= after + tolerance);
}
