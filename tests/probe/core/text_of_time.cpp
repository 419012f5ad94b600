// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/text_of_time.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using vram::detail::text_of_time;

TEST_CASE("text_of_time: three digits and a unit") {
    CHECK(text_of_time(0) == "0 ns");
    CHECK(text_of_time(999) == "999 ns");
    CHECK(text_of_time(1000) == "1.00 us");
    CHECK(text_of_time(12'345) == "12.3 us");
    CHECK(text_of_time(999'600) == "1.00 ms");
    CHECK(text_of_time(123'456'789) == "123 ms");
    CHECK(text_of_time(61'000'000'000) == "61.0 s");
    CHECK(text_of_time(5'000'000'000'000) == "5000 s");
}
