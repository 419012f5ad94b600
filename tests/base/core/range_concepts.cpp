// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/range_concepts.hpp> // first: the header stands alone

#include <doctest/doctest.h>

TEST_CASE("range_concepts: the concepts, tags and the sentinel of std are declared") {
    int const values[3]{};
    static_assert(std::ranges::contiguous_range<decltype((values))>);
    static_assert(std::ranges::sized_range<decltype((values))>);
    static_assert(std::ranges::borrowed_range<decltype((values))>);
    static_assert(!std::ranges::view<decltype((values))>);
    [[maybe_unused]] std::input_iterator_tag const tag{};
    [[maybe_unused]] std::default_sentinel_t const end{};
    CHECK(std::ranges::begin(values) + 3 == std::ranges::end(values));
}
