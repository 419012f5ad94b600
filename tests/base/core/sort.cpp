// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/sort.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

using vram::detail::sort;

TEST_CASE("sort: every array of up to 7 elements with three values is sorted") {
    auto const before = [](int a, int b) { return a < b; };
    for (std::size_t count = 0; count <= 7; ++count) {
        std::vector<int> digits(count, 0);
        for (;;) {
            std::vector<int> all = digits, expected = digits;
            sort(all.data(), all.size(), before);
            std::sort(expected.begin(), expected.end());
            REQUIRE(all == expected);
            std::size_t i = 0;
            while (i < count && digits[i] == 2) { digits[i++] = 0; }
            if (i == count) { break; }
            ++digits[i];
        }
    }
}

TEST_CASE("sort: large arrays are sorted with few comparisons") {
    std::mt19937     random{1};
    std::vector<int> all(100'000);
    for (int& each : all) { each = static_cast<int>(random() % 1'000'000); }
    std::vector<int> expected = all;
    std::sort(expected.begin(), expected.end());
    std::size_t calls = 0;
    sort(all.data(), all.size(), [&](int a, int b) {
        ++calls;
        return a < b;
    });
    CHECK(all == expected);
    CHECK(calls <= std::size_t{2} * 17 * all.size()); // 2 * count * log2(count)
}

TEST_CASE("sort: elements that can only be moved are sorted") {
    std::vector<std::unique_ptr<int>> all;
    for (int const each : {3, 1, 2, 1}) { all.push_back(std::make_unique<int>(each)); }
    sort(all.data(), all.size(), [](auto const& a, auto const& b) { return *a < *b; });
    CHECK(*all[0] == 1);
    CHECK(*all[1] == 1);
    CHECK(*all[2] == 2);
    CHECK(*all[3] == 3);
}
