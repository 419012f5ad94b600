// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/monotonic_mark.hpp> // first: the header stands alone

#include <vram/pool/monotonic.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace vram;

TEST_CASE("monotonic_mark: a plain value, which nobody but a monotonic can make") {
    static_assert(std::is_trivially_copyable_v<monotonic_mark>);
    static_assert(!std::is_default_constructible_v<monotonic_mark>);
    static_assert(!std::is_constructible_v<monotonic_mark, std::uint64_t>);
}

TEST_CASE("monotonic_mark: no two marks are the same, whoever made them") {
    monotonic  a{host_resource{}}, b{host_resource{}};
    auto const first = a.mark(), second = a.mark(), other = b.mark();
    auto const copy = first;
    CHECK(copy == first);
    CHECK(first != second);
    CHECK(first != other);
    CHECK(second != other);
}
