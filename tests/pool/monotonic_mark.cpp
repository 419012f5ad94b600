// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/monotonic_mark.hpp> // first: the header stands alone

#include <vram/pool/monotonic.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace vram;

TEST_CASE("monotonic_mark: it is a plain value that only a monotonic can make") {
    static_assert(std::is_trivially_copyable_v<monotonic_mark>);
    static_assert(!std::is_default_constructible_v<monotonic_mark>);
    static_assert(!std::is_constructible_v<monotonic_mark, std::uint64_t>);
}

TEST_CASE("monotonic_mark: different positions have different marks, for all objects") {
    monotonic   a{host_resource{}}, b{host_resource{}};
    auto const  first = a.mark(), other = b.mark(), copy = a.mark();
    void* const p      = a.allocate_sync(100);
    auto const  second = a.mark();
    a.deallocate_sync(p, 100);
    CHECK(copy == first);
    CHECK(first != second);
    CHECK(first != other);
    CHECK(second != other);
}
