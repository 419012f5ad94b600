// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/vector_clock.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

using namespace vram;
using namespace vram::detail;

TEST_CASE("vector_clock: counters are raised, advanced and joined in both orders") {
    vector_clock a, b;
    CHECK(a.advance(3) == 1);
    b.raise(9, 2);
    a.join(b);
    CHECK(a[9] == 2);
    CHECK(a.includes(9, 2));
    CHECK(a.includes_fully(9, 2));
    CHECK_FALSE(a.includes_fully(9, 3));
    CHECK(a.joined());
    CHECK(a.advance(3) == 2);
    CHECK_FALSE(a.joined());
    CHECK_FALSE(a == b);
}

TEST_CASE(
    "vector_clock: the order that only a resource adds is in the full order, and is passed on") {
    vector_clock a, b, c;
    b.raise(1, 4);
    a.join_by_resource(b);
    CHECK_FALSE(a.includes(1, 4));
    CHECK(a.includes_fully(1, 4));
    CHECK_FALSE(a.includes_fully(1, 5));
    c.join(a);
    CHECK_FALSE(c.includes(1, 4));
    CHECK(c.includes_fully(1, 4));
    c.join(b);
    CHECK(c.includes(1, 4));
}

TEST_CASE("vector_clock: a copy has both orders, and is not changed later") {
    vector_clock a, b;
    a.advance(0);
    b.advance(1);
    a.join_by_resource(b);
    a.advance(0);
    vector_clock const event = a;
    vector_clock       plain;
    plain = a;
    b.advance(1);
    a.join(b);
    CHECK(event.includes_fully(1, 1));
    CHECK_FALSE(event.includes(1, 1));
    CHECK_FALSE(event.includes_fully(1, 2));
    CHECK(plain == event);
    plain = vector_clock{};
    CHECK_FALSE(plain.includes_fully(1, 1));
}

TEST_CASE("vector_clock: the common part of two clocks has the smaller counters") {
    vector_clock a, b, c;
    for (std::size_t i = 0; i < 40; ++i) {
        a.raise(i, 2 * i);
        b.raise(i, 40 - i);
    }
    c.raise(100, 7);
    b.join_by_resource(c);
    vector_clock const both = a.common(b);
    for (std::size_t i = 0; i < 50; ++i) { CHECK(both[i] == std::min(a[i], b[i])); }
    CHECK(both == b.common(a));
    CHECK_FALSE(b.common(b).includes_fully(100, 1));
    CHECK(a.common({}) == vector_clock{});
}
