// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/page_aliases.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <cstddef>
#include <random>
#include <utility>
#include <vector>

using vram::detail::page_place;
using vram::detail::page_aliases;

namespace {

page_aliases rings_of(std::size_t chunks, std::size_t pages) {
    page_aliases rings;
    for (std::size_t i = 0; i != chunks; ++i) {
        rings.reserve();
        rings.add();
        rings.reserve(i, pages);
        rings.widen(i, pages);
    }
    return rings;
}
std::vector<page_place> together_with(page_aliases const& rings, page_place const& p) {
    std::vector<page_place> all;
    rings.for_each_other(p, [&](page_place const& one) { all.push_back(one); });
    return all;
}

} // namespace

TEST_CASE("page_aliases: a page is alone until paired, and again when one of two leaves") {
    page_aliases rings = rings_of(2, 4);
    CHECK(together_with(rings, {0, 1}).empty());
    rings.part({0, 1}); // the page is in no ring
    rings.pair({0, 1}, {1, 2});
    CHECK(rings.size() == 2);
    CHECK(together_with(rings, {0, 1}) == std::vector<page_place>{{1, 2}});
    CHECK(together_with(rings, {1, 2}) == std::vector<page_place>{{0, 1}});
    rings.pair({1, 2}, {0, 1}); // they are together
    CHECK(rings.size() == 2);
    rings.part({0, 1});
    CHECK(rings.size() == 0);
    CHECK(together_with(rings, {1, 2}).empty());
}

TEST_CASE("page_aliases: a page that joins a ring leaves its own, and dissolving a ring names all "
          "its pages") {
    page_aliases rings = rings_of(1, 8);
    rings.pair({0, 1}, {0, 0});
    rings.pair({0, 2}, {0, 0});
    rings.pair({0, 4}, {0, 3});
    CHECK(rings.size() == 5);
    rings.pair({0, 2}, {0, 3});
    CHECK(rings.size() == 5);
    CHECK(together_with(rings, {0, 0}) == std::vector<page_place>{{0, 1}});
    CHECK(together_with(rings, {0, 4}).size() == 2);
    std::size_t named = 0;
    rings.dissolve({0, 3}, [&](page_place const& one) { named += one.page; });
    CHECK(named == 2 + 4);
    CHECK(rings.size() == 2);
    rings.dissolve({0, 3}, [&](page_place const&) { ++named; }); // it is alone
    CHECK(named == 6);
}

TEST_CASE("page_aliases: if a chunk is removed, the last one gets its number in every ring") {
    page_aliases rings = rings_of(3, 2);
    rings.pair({2, 0}, {1, 1});
    rings.pair({0, 0}, {2, 1});
    rings.remove(0);
    CHECK(rings.size() == 2); // the ring of the removed chunk ended, the other one stayed
    CHECK(together_with(rings, {1, 1}) == std::vector<page_place>{{0, 0}});
    rings.remove(1);
    CHECK(rings.size() == 0);
    page_aliases other{std::move(rings)};
    CHECK(together_with(other, {0, 0}).empty());
}

TEST_CASE("page_aliases: random pairs agree with a list of sets") {
    std::minstd_rand         random{3};
    page_aliases             rings = rings_of(2, 10);
    std::vector<std::size_t> set(20); // of each page
    for (std::size_t i = 0; i != set.size(); ++i) { set[i] = i; }
    std::size_t next  = set.size();
    auto const  place = [](std::size_t i) { return page_place{i / 10, i % 10}; };
    for (int step = 0; step != 3000; ++step) {
        std::size_t const a = random() % 20, b = random() % 20;
        if (random() % 3 != 0) {
            if (a == b) { continue; }
            rings.pair(place(a), place(b));
            set[a] = set[b];
        } else {
            rings.part(place(a));
            set[a] = next++;
        }
        std::size_t in_rings = 0;
        for (std::size_t i = 0; i != set.size(); ++i) {
            std::size_t same = 0;
            for (std::size_t const one : set) { same += one == set[i] ? 1 : 0; }
            in_rings += same > 1 ? 1 : 0;
            auto const together = together_with(rings, place(i));
            CHECK(together.size() == same - 1);
            for (page_place const& p : together) { CHECK(set[p.chunk * 10 + p.page] == set[i]); }
        }
        CHECK(rings.size() == in_rings);
    }
}
