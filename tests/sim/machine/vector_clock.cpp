// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/vector_clock.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("vector_clock: the counter of an unknown actor is 0") {
    vector_clock const c;
    CHECK(c[0] == 0);
    CHECK(c[1000] == 0);
    CHECK(c.includes(7, 0));
    CHECK_FALSE(c.includes(7, 1));
}

TEST_CASE("vector_clock: advance increments an actor's counter") {
    vector_clock c;
    CHECK(c.advance(3) == 1);
    CHECK(c.advance(3) == 2);
    CHECK(c[2] == 0);
}

TEST_CASE("vector_clock: a join takes the larger of each pair of counters") {
    vector_clock a, b;
    a.raise(0, 5);
    a.raise(1, 1);
    b.raise(1, 4);
    b.raise(9, 2);
    a.join(b);
    CHECK(a[0] == 5);
    CHECK(a[1] == 4);
    CHECK(a[9] == 2);
    CHECK_FALSE(b.includes(0, 1));
}

TEST_CASE("vector_clock: raise never lowers a counter") {
    vector_clock c;
    c.raise(2, 9);
    c.raise(2, 3);
    CHECK(c[2] == 9);
}

TEST_CASE("vector_clock: trailing zeros do not matter for equality") {
    vector_clock a, b;
    a.raise(0, 1);
    b.raise(0, 1);
    b.raise(5, 0);
    CHECK(a == b);
    b.raise(5, 1);
    CHECK_FALSE(a == b);
}

TEST_CASE("vector_clock: what only a resource orders is in the full order, and is passed on") {
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
