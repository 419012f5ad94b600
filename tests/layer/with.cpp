// SPDX-License-Identifier: Apache-2.0
#include <vram/layer/with.hpp> // first: the header stands alone

#include <vram/layer/layer_base.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/locked.hpp>

#include "../doubles/archetype.hpp"

#include <doctest/doctest.h>

#include <type_traits>
#include <utility>

using namespace vram;

TEST_CASE("with: a stack is composed in reading order, one layer for each word") {
    auto stack = doubles::archetype<>{500} | with::locked | with::limiting(100) | with::locked();
    static_assert(std::is_same_v<decltype(stack), locked<limiting<locked<doubles::archetype<>>>>>);
    CHECK(stack.upstream().limit() == 100);
    stack.deallocate_sync(stack.allocate_sync(10), 10);
}

TEST_CASE("with: a word may be stored, and used for several stacks") {
    auto const budget = with::limiting(100);
    auto       one    = doubles::archetype<>{} | budget;
    auto       two    = doubles::archetype<>{} | budget | budget;
    CHECK(one.limit() == two.upstream().limit());
}

TEST_CASE("with: move-only arguments are moved") {
    auto stack = limiting{doubles::archetype<>{}, 7} | with::locked;
    CHECK(stack.upstream().limit() == 7);
}
