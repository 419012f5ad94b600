// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/interval_map.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <vector>

using namespace vram;
using namespace vram::detail;

template class vram::detail::interval_map<int>;

TEST_CASE("interval_map: a new map is one interval") {
    interval_map<int> const m{100, 7};
    CHECK(m.size() == 100);
    CHECK(m.pieces() == 1);
    CHECK(m.at(0) == 7);
    CHECK(m.at(99) == 7);
    CHECK(interval_map<int>{}.pieces() == 0);
}

TEST_CASE("interval_map: a change splits intervals at both ends and at no other position") {
    interval_map<int> m{100, 0};
    int               calls = 0;
    m.change(10, 20, [&](std::size_t from, std::size_t to, int& v) {
        CHECK(from == 10);
        CHECK(to == 20);
        v = 1;
        ++calls;
    });
    CHECK(calls == 1);
    CHECK(m.pieces() == 3);
    CHECK(m.at(9) == 0);
    CHECK(m.at(10) == 1);
    CHECK(m.at(19) == 1);
    CHECK(m.at(20) == 0);
}

TEST_CASE("interval_map: assign merges the intervals of a range into one") {
    interval_map<int> m{100, 0};
    for (std::size_t i = 0; i < 100; i += 10) { m.assign(i, i + 5, static_cast<int>(i)); }
    CHECK(m.pieces() == 20);
    m.assign(0, 100, 3);
    CHECK(m.pieces() == 1);
}

TEST_CASE("interval_map: a range that is empty or beyond the end changes nothing") {
    interval_map<int> m{10, 0};
    m.assign(5, 5, 1);
    m.assign(5, 11, 1);
    m.change(3, 3, [](std::size_t, std::size_t, int& v) { v = 1; });
    CHECK(m.pieces() == 1);
    CHECK(m.at(5) == 0);
}

TEST_CASE("interval_map: agrees with an array over random ranges") {
    std::mt19937      random{1};
    std::vector<int>  model(257, 0);
    interval_map<int> m{model.size(), 0};
    for (int round = 0; round < 3000; ++round) {
        std::size_t a = random() % 258, b = random() % 258;
        if (a > b) { std::swap(a, b); }
        int const value = static_cast<int>(random() % 9);
        if (random() % 2 == 0) {
            m.assign(a, b, value);
            for (std::size_t i = a; i < b; ++i) { model[i] = value; }
        } else {
            m.change(a, b, [&](std::size_t, std::size_t, int& v) { v += value; });
            for (std::size_t i = a; i < b; ++i) { model[i] += value; }
        }
    }
    bool same = true;
    for (std::size_t i = 0; i < model.size(); ++i) { same = same && m.at(i) == model[i]; }
    CHECK(same);
}

TEST_CASE("interval_map: visit splits nothing, and gives the part in the range") {
    interval_map<int> m{100, 1};
    m.assign(20, 40, 2);
    std::vector<std::size_t> bounds;
    m.visit(10, 30, [&](std::size_t from, std::size_t to, int value) {
        bounds.insert(bounds.end(), {from, to, static_cast<std::size_t>(value)});
    });
    CHECK(bounds == std::vector<std::size_t>{10, 20, 1, 20, 30, 2});
    CHECK(m.pieces() == 3);
    m.visit(90, 101, [&](std::size_t, std::size_t, int) { FAIL("beyond the end"); });
}

TEST_CASE("interval_map: compact simplifies each value and makes one of equal neighbours") {
    interval_map<int> m{100, 0};
    for (std::size_t i = 0; i < 100; i += 10) { m.assign(i, i + 5, static_cast<int>(i)); }
    CHECK_FALSE(m.compact_is_due());
    for (int i = 0; i < 10; ++i) {
        m.change(0, 100, [](std::size_t, std::size_t, int&) {});
    }
    CHECK(m.compact_is_due());
    auto const simplify = [](int& v) -> std::size_t {
        v = v < 50 ? 0 : v;
        return 1;
    };
    m.compact(simplify, std::equal_to{});
    CHECK_FALSE(m.compact_is_due());
    CHECK(m.pieces() == 11); // up to 49, then 50, 0, 60, 0, ..., 90, 0
    CHECK(m.at(49) == 0);
    CHECK(m.at(54) == 50);
    CHECK(m.at(55) == 0);
    CHECK(m.at(94) == 90);
    CHECK(m.at(99) == 0);
}

TEST_CASE("interval_map: compact is due when the map has doubled, or visits have paid for it") {
    interval_map<int> m{100000, 0};
    int const         costs = 1000;
    auto const        keep  = [&](int&) -> std::size_t { return costs; };
    auto const        split = [&] {
        m.assign(m.pieces() * 100, m.pieces() * 100 + 50, static_cast<int>(m.pieces()));
    };
    while (!m.compact_is_due()) { split(); }
    CHECK(m.pieces() <= 66);
    std::size_t const before = m.pieces();
    m.compact(keep, std::equal_to{});
    CHECK(m.pieces() == before);
    std::size_t visits = 0;
    for (; !m.compact_is_due(); ++visits) {
        m.change(0, 1, [](std::size_t, std::size_t, int&) {});
    }
    CHECK(visits > before * costs);
    CHECK(visits < 3 * before * costs);
}

TEST_CASE("interval_map: reset and swap keep no interval of before") {
    interval_map<int> a{100, 1}, b;
    a.assign(10, 20, 2);
    b.swap(a);
    CHECK(a.size() == 0);
    CHECK(b.at(15) == 2);
    b.reset(50, 3);
    CHECK(b.size() == 50);
    CHECK(b.pieces() == 1);
    CHECK(b.at(15) == 3);
}
