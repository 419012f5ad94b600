// SPDX-License-Identifier: Apache-2.0
#include <vram/handle/core/stored_resource.hpp> // first: the header stands alone

#include "../../doubles/archetype.hpp"
#include "../../doubles/minimal_resource.hpp"

#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

using full = doubles::archetype<>;

template class vram::detail::stored_resource<full>;
template class vram::detail::stored_resource<full&>;
template class vram::detail::stored_resource<doubles::minimal_resource<>>;

static_assert(!std::copyable<stored_resource<full>> && std::movable<stored_resource<full>>);
static_assert(std::copyable<stored_resource<full&>>);
static_assert(std::is_empty_v<stored_resource<host_resource>>);
static_assert(sizeof(stored_resource<full&>) == sizeof(void*));

TEST_CASE("stored_resource: by value it is the resource, and by reference it refers to it") {
    full                  mr;
    stored_resource<full> value{full{}};
    stored_resource       borrowed = stored_resource<full&>{mr};
    CHECK(&borrowed.get() == &mr);
    CHECK(&value.get() != &mr);
    CHECK(borrowed == stored_resource<full&>{mr});
    CHECK(value == value);
    full other;
    borrowed = stored_resource<full&>{other};
    CHECK(&borrowed.get() == &other);
}
