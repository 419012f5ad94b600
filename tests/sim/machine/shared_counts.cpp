// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/shared_counts.hpp> // first: the header must stand alone

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

using namespace vram;
using namespace vram::detail;

TEST_CASE("shared_counts: a counter that was never raised is 0") {
    shared_counts c;
    CHECK(c[0] == 0);
    CHECK(c[100000] == 0);
    c.raise(3, 0);
    CHECK(c.size() == 0);
}

TEST_CASE("shared_counts: a change of a copy does not change the original") {
    shared_counts a;
    a.raise(5, 1);
    a.raise(700, 2);
    shared_counts b = a;
    CHECK(a.shares(b));
    b.raise(700, 9);
    CHECK(a[700] == 2);
    CHECK(b[700] == 9);
    CHECK(b[5] == 1);
    CHECK_FALSE(a.shares(b));
}

TEST_CASE("shared_counts: an array that includes another is the result of both") {
    shared_counts small, large;
    small.raise(2, 1);
    large = small;
    large.raise(300, 4);
    shared_counts up = small;
    up.raise_all(large);
    CHECK(up.shares(large));
    shared_counts same = large;
    same.raise_all(small);
    CHECK(same.shares(large));
}

TEST_CASE("shared_counts: agrees with arrays over random changes, copies and joins") {
    std::mt19937                            random{1};
    constexpr std::size_t                   actors = 600;
    std::vector<shared_counts>              real(8);
    std::vector<std::vector<std::uint64_t>> model(8, std::vector<std::uint64_t>(actors));
    for (int round = 0; round < 3000; ++round) {
        std::size_t const a = random() % 8, b = random() % 8, i = random() % (round % 2 ? 600 : 20);
        if (random() % 8 == 0) {
            real[a] = real[b], model[a] = model[b];
        } else if (random() % 4 == 0) {
            real[a].raise_all(real[b]);
            for (std::size_t k = 0; k < actors; ++k) {
                model[a][k] = std::max(model[a][k], model[b][k]);
            }
        } else {
            std::uint64_t const to = random() % 1000;
            real[a].raise(i, to);
            model[a][i] = std::max(model[a][i], to);
        }
    }
    bool same = true;
    for (std::size_t c = 0; c < real.size(); ++c) {
        for (std::size_t i = 0; i < actors; ++i) { same = same && real[c][i] == model[c][i]; }
    }
    CHECK(same);
}
