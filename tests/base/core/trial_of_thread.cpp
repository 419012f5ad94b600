// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/trial_of_thread.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>

using vram::detail::trial_of_thread;
using vram::detail::trial_scope;

TEST_CASE("trial_of_thread: scopes nest, and other threads belong to no trial") {
    CHECK(trial_of_thread == 0);
    {
        trial_scope const outer{7};
        CHECK(trial_of_thread == 7);
        {
            trial_scope const inner{9};
            CHECK(trial_of_thread == 9);
            std::uint64_t other = 1;
            std::thread{[&] { other = trial_of_thread; }}.join();
            CHECK(other == 0);
        }
        CHECK(trial_of_thread == 7);
    }
    CHECK(trial_of_thread == 0);
}
