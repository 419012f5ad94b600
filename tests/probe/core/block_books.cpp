// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/block_books.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <cstdint>

using namespace vram;
using namespace vram::detail;

TEST_CASE("block_books: a block of the upstream that was freed long ago is a double free") {
    doubles::mishaps           seen;
    block_books<host_platform> books{{}};
    auto* const                p     = reinterpret_cast<void*>(std::uintptr_t{4096});
    auto const                 ours  = [](void const*) { return true; };
    auto const                 other = [](void const*) { return false; };
    CHECK_FALSE(books.remove(p, 10, 256, nullptr, {}, ours));
    CHECK(seen.last().kind == error_kind::double_free);
    CHECK_FALSE(books.remove(p, 10, 256, nullptr, {}, other));
    CHECK(seen.last().kind == error_kind::foreign_pointer);
    REQUIRE(books.add(p, 10, 256, nullptr, {}, {}));
    CHECK(books.sums().live == 10);
    CHECK(books.remove(p, 10, 256, nullptr, {}, other));
    CHECK(books.report_leaks() == 0);
    CHECK(seen.count() == 2);
}
