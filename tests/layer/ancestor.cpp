// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/ancestor.hpp> // first: the header stands alone

#include <vram/handle/shared.hpp>
#include <vram/layer/fallback.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>
#include <vram/layer/statistics.hpp>

#include "../doubles/archetype.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;

TEST_CASE("ancestor: it finds the outermost layer of a template") {
    auto stack = doubles::archetype<>{} | with::statistics | with::limiting(100) |
                 with::statistics | with::locked;
    CHECK(&ancestor<locked>(stack) == &stack);
    CHECK(&ancestor<statistics>(stack) == &stack.upstream());
    CHECK(&ancestor<limiting>(stack) == &stack.upstream().upstream());
    CHECK(&ancestor<statistics>(ancestor<limiting>(stack)) ==
          &stack.upstream().upstream().upstream());
    CHECK(ancestor<limiting>(stack).limit() == 100);
}

TEST_CASE("ancestor: a const stack gives a const layer") {
    auto const stack = doubles::archetype<>{} | with::limiting(100) | with::locked;
    static_assert(
        std::is_same_v<decltype(ancestor<limiting>(stack)), limiting<doubles::archetype<>> const&>);
    CHECK(ancestor<limiting>(stack).limit() == 100);
}

TEST_CASE("ancestor: of two upstreams the first is searched first") {
    fallback stack{limiting{doubles::archetype<>{}, 10},
                   limiting{statistics{doubles::archetype<>{}}, 20}};
    CHECK(ancestor<limiting>(stack).limit() == 10);
    CHECK(&ancestor<statistics>(stack) == &stack.secondary().upstream());
}

TEST_CASE("ancestor: the resource of a shared handle is searched") {
    shared const stack{limiting{statistics{shared{limiting{doubles::archetype<>{}, 20}}}, 10}};
    CHECK(&ancestor<limiting>(stack) == &stack.get());
    CHECK(ancestor<limiting>(ancestor<statistics>(stack)).limit() == 20);
    static_assert(!has_ancestor<shared<doubles::archetype<>>, limiting>);
}

TEST_CASE("ancestor: a program can test if a stack has the layer") {
    using stack = limiting<statistics<doubles::archetype<>>>;
    static_assert(has_ancestor<stack, statistics> && has_ancestor<stack const&, limiting>);
    static_assert(!has_ancestor<stack, locked> && !has_ancestor<int, locked>);
    static_assert(has_ancestor<fallback<doubles::archetype<>, stack>, statistics>);
    CHECK(has_ancestor<stack, statistics>);
}
