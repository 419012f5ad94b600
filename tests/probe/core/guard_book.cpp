// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/core/guard_book.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"

#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("guard_book: a block is taken once, and only with its size") {
    doubles::mishaps const            errors;
    detail::guard_book<host_platform> book{{.fence = 16}};
    std::byte                         memory[64];
    book.add({.p = memory, .bytes = 10});
    CHECK(book.is_live(memory));
    CHECK(book.all_live().size() == 1);
    CHECK_FALSE(book.take(memory, 9, {}));
    CHECK(errors.count(error_kind::wrong_size) == 1);
    CHECK(book.take(memory, 10, {})->p == memory);
    CHECK_FALSE(book.take(memory, 10, {}));
    CHECK(errors.count(error_kind::foreign_pointer) == 1);
    CHECK(book.own_stream());
    CHECK(book.all_live().empty());
}
