// SPDX-License-Identifier: Apache-2.0
// A program of its own, with Catch2 of version 2 or 3: each macro passes, and fails. The cases with
// [messages] are hidden: tests/frameworks.cmake compares what they print.
#include <vram/probe/catch2.hpp> // first: the header must stand alone

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_macros.hpp>
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif

#include "macro_cases.hpp"

TEST_CASE("check macros: correct code passes") { macro_cases::correct_code(); }

TEST_CASE("check macros: a leak", "[!shouldfail]") { macro_cases::leak(); }
TEST_CASE("check macros: another delta", "[!shouldfail]") { macro_cases::another_delta(); }
TEST_CASE("check macros: too large a delta", "[!shouldfail]") { macro_cases::too_large_a_delta(); }
TEST_CASE("check macros: a peak", "[!shouldfail]") { macro_cases::too_high_a_peak(); }
TEST_CASE("check macros: another number of allocations", "[!shouldfail]") {
    macro_cases::another_number_of_allocations();
}
TEST_CASE("check macros: an allocation", "[!shouldfail]") { macro_cases::an_allocation(); }
TEST_CASE("check macros: an older block that is freed", "[!shouldfail]") {
    macro_cases::not_balanced();
}
TEST_CASE("check macros: an error", "[!shouldfail]") { macro_cases::an_error(); }
TEST_CASE("check macros: a swallowed refusal", "[!shouldfail]") {
    macro_cases::swallowed_refusal();
}
TEST_CASE("check macros: a report of the simulated device", "[!shouldfail]") {
    macro_cases::race();
}

TEST_CASE("check macros: messages", "[.][messages]") {
    macro_cases::another_delta();
    macro_cases::leak();
    macro_cases::swallowed_refusal();
}
