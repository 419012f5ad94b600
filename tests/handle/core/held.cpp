// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/held.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

using full = doubles::archetype<>;

template class vram::detail::held<full>;
template class vram::detail::held<full&>;
template class vram::detail::held<doubles::minimal_resource<>>;

static_assert(!std::copyable<held<full>> && std::movable<held<full>>);
static_assert(std::copyable<held<full&>>);
static_assert(std::is_empty_v<held<host_resource>>);
static_assert(sizeof(held<full&>) == sizeof(void*));

TEST_CASE("held: by value it is the resource, and by reference it refers to it") {
    full       mr;
    held<full> value{full{}};
    held       borrowed = held<full&>{mr};
    CHECK(&borrowed.get() == &mr);
    CHECK(&value.get() != &mr);
    CHECK(borrowed == held<full&>{mr});
    CHECK(value == value);
    full other;
    borrowed = held<full&>{other};
    CHECK(&borrowed.get() == &other);
}
