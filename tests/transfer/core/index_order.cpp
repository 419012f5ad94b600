// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/index_order.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using vram::detail::index_order;

namespace {
std::vector<std::size_t> drawn(std::size_t n, std::uint64_t seed) {
    index_order const        order{n, seed};
    std::vector<std::size_t> all(n);
    for (std::size_t i = 0; i < n; ++i) { all[i] = order[i]; }
    return all;
}
} // namespace

TEST_CASE("index_order: without shuffling every index stays in place") {
    index_order const none;
    CHECK(none.size() == 0);
    CHECK(none[0] == 0);
    CHECK(none[12345] == 12345);
}

TEST_CASE("index_order: every index occurs once, for every size and seed") {
    for (std::size_t n : {0U, 1U, 2U, 3U, 10U, 1000U}) {
        for (std::uint64_t seed : {0U, 1U, 77U}) {
            auto all = drawn(n, seed);
            std::sort(all.begin(), all.end());
            for (std::size_t i = 0; i < n; ++i) { REQUIRE(all[i] == i); }
        }
    }
}

TEST_CASE("index_order: a seed means one order for ever") {
    CHECK(drawn(10, 1) == std::vector<std::size_t>{4, 2, 8, 1, 9, 3, 0, 6, 7, 5});
    CHECK(drawn(10, 1) != drawn(10, 2));
}

TEST_CASE("index_order: shards take turns, in order or shuffled") {
    for (bool const shuffled : {false, true}) {
        index_order const whole = shuffled ? index_order{10, 5} : index_order{};
        for (std::size_t const part : {0U, 1U, 2U}) {
            index_order mine = whole;
            mine.part(part, 3);
            for (std::size_t i = 0; i < 5; ++i) { CHECK(mine[i] == whole[part + 3 * i]); }
        }
    }
}

TEST_CASE("index_order: every index is equally likely at every position") {
    std::size_t count[4][4] = {};
    for (std::uint64_t seed = 0; seed < 4000; ++seed) {
        index_order const order{4, seed};
        for (std::size_t i = 0; i < 4; ++i) { ++count[i][order[i]]; }
    }
    for (auto const& place : count) {
        for (std::size_t n : place) { CHECK((n > 880 && n < 1120)); } // 1000, four deviations
    }
}

TEST_CASE("index_order: chosen indices keep their order, or are shuffled among themselves") {
    index_order chosen{std::vector<std::size_t>{0, 1, 4, 5, 9}};
    CHECK(chosen.size() == 5);
    CHECK(chosen[2] == 4);
    chosen.shuffle(7);
    std::vector<std::size_t> drawn;
    for (std::size_t i = 0; i < 5; ++i) { drawn.push_back(chosen[i]); }
    index_order const same{5, 7};
    CHECK(drawn[0] == std::vector<std::size_t>{0, 1, 4, 5, 9}[same[0]]);
    std::sort(drawn.begin(), drawn.end());
    CHECK(drawn == std::vector<std::size_t>{0, 1, 4, 5, 9});
}
