// SPDX-License-Identifier: Apache-2.0
// A program of its own, with GoogleTest: each macro passes, and fails with its message.
#include <vram/probe/gtest.hpp> // first: the header must stand alone

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "macro_cases.hpp"

namespace {

/// Fails the test if the function does not fail once with a message that contains the words.
void fails(void (*function)(), char const* words) { EXPECT_NONFATAL_FAILURE(function(), words); }

} // namespace

TEST(check_macros, pass_for_correct_code) { macro_cases::correct_code(); }

TEST(check_macros, fail_with_their_messages) {
    fails(macro_cases::leak, "leaks 3.00 KiB");
    fails(macro_cases::another_delta, "by 3.00 KiB (3072 bytes), not by");
    fails(macro_cases::too_large_a_delta, "by more than");
    fails(macro_cases::too_high_a_peak, "peak of live bytes by 3.00 KiB");
    fails(macro_cases::another_number_of_allocations, "makes 1 allocations, not 2");
    fails(macro_cases::an_allocation, "makes 1 allocations, not 0");
    fails(macro_cases::not_balanced, "does not free 1 block that it allocates, 1.00 KiB");
    fails(macro_cases::an_error, "vram: wrong size");
    fails(macro_cases::swallowed_refusal, "Request 1 of 1 (64 B");
}

TEST(check_macros, a_report_of_the_simulated_device_fails_the_test) {
    fails(macro_cases::race, "race");
}
