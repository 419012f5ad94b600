// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/erased.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <vram/handle/resource_ref.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

template class vram::detail::erased<host_platform>;

// It cannot be constructed directly, and is not destroyed through a pointer to it.
static_assert(!std::is_default_constructible_v<erased<host_platform>>);
static_assert(!std::is_destructible_v<erased<host_platform>>);

TEST_CASE("erased: a query that the resource does not support has an empty result") {
    host_resource      mr;
    resource_ref const ref{mr};
    CHECK_FALSE(ref.owns(&mr).has_value());
    CHECK_FALSE(ref.usage().has_value());
    CHECK(ref.trim(0) == 0);
    ref.retire({});
}

TEST_CASE("erased: queries and requests that the resource supports reach it") {
    doubles::archetype<> mr;
    resource_ref const   ref{mr};
    void* const          p = ref.allocate({}, 100);
    CHECK(ref.owns(p) == true);
    CHECK(ref.owns(&mr) == false);
    REQUIRE(ref.usage().has_value());
    CHECK(ref.usage()->live == 100);
    CHECK(ref.trim() == 0);
    CHECK(mr.trims() == 1);
    ref.retire({});
    CHECK(mr.retired() == 1);
    ref.deallocate({}, p, 100);
    CHECK(ref.usage()->live == 0);
}
