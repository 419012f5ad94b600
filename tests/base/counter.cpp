// SPDX-License-Identifier: Apache-2.0
#include <vram/base/counter.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <initializer_list>

using namespace vram;

TEST_CASE("counter: it has a value, a peak and a total") {
    counter c;
    c.add(10);
    c.add(5);
    c.sub(12);
    CHECK(c == counter{3, 15, 15});
    c.add(4);
    CHECK(c == counter{7, 15, 19});
}

TEST_CASE("counter: if more is subtracted than added, the peak stays at zero") {
    counter c;
    c.sub(100);
    c.add(40);
    CHECK(c == counter{-60, 0, 40});
}

TEST_CASE("counter: values of an inner scope count for the outer scope") {
    counter whole, outer, inner;
    for (auto* const c : {&whole, &outer}) {
        c->add(100);
        c->sub(30);
    }
    for (auto* const c : {&whole, &inner}) {
        c->add(50);
        c->sub(90);
        c->add(20);
    }
    outer.merge(inner);
    CHECK(outer == whole);
    CHECK(whole.peak == 120);
}
