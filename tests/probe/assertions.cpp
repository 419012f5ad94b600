// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/assertions.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <string>

// The macros are tested with each framework (doctest.cpp, gtest.cpp, catch2.cpp), and their
// messages in core/scope_facts.cpp. The header alone has them all, but not the one that reports a
// failure.
TEST_CASE("assertions: the header defines each macro") {
#define VRAM_TEST_TEXT2(...) #__VA_ARGS__
#define VRAM_TEST_TEXT(...) VRAM_TEST_TEXT2(__VA_ARGS__)
    for (std::string const expanded :
         {VRAM_TEST_TEXT(VRAM_CHECK_NO_LEAK(m)), VRAM_TEST_TEXT(VRAM_CHECK_DELTA(m, 1)),
          VRAM_TEST_TEXT(VRAM_CHECK_DELTA_AT_MOST(m, 1)),
          VRAM_TEST_TEXT(VRAM_CHECK_PEAK_AT_MOST(m, 1)),
          VRAM_TEST_TEXT(VRAM_CHECK_ALLOCATIONS(m, 1)), VRAM_TEST_TEXT(VRAM_CHECK_NO_ALLOCATION(m)),
          VRAM_TEST_TEXT(VRAM_CHECK_BALANCED(m)), VRAM_TEST_TEXT(VRAM_CHECK_NO_ERRORS),
          VRAM_TEST_TEXT(VRAM_CHECK_SURVIVES_OOM(m, work))}) {
        CHECK(expanded.find("::vram::") != std::string::npos);
    }
#undef VRAM_TEST_TEXT
#undef VRAM_TEST_TEXT2
}
