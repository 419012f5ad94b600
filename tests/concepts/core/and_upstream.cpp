// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/and_upstream.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error

using namespace vram;
using namespace vram::detail;

TEST_CASE("and_upstream: the upstream is called if it has the function, also after an exception") {
    doubles::archetype<>               whole;
    doubles::minimal_resource<>        least;
    doubles::archetype<>::stream const s{};
    int                                calls = 0;
    auto const                         works = [&] { ++calls; };
    auto const                         fails = [&] {
        ++calls;
        throw std::runtime_error{"own"};
    };
    and_upstream::retire(whole, s, works);
    CHECK_THROWS_AS(and_upstream::retire(whole, s, fails), std::runtime_error);
    and_upstream::retire(least, s, works);
    CHECK_THROWS_AS(and_upstream::retire(least, s, fails), std::runtime_error);
    CHECK(whole.retired() == 2);
    and_upstream::forget_captures(whole, works);
    CHECK_THROWS_AS(and_upstream::forget_captures(whole, fails), std::runtime_error);
    and_upstream::forget_captures(least, works);
    CHECK(whole.forgotten() == 2);
    CHECK(calls == 7);
}
