// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/kept_by_value.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <type_traits>

using vram::detail::kept_by_value;

TEST_CASE("kept_by_value: an object is kept by value, but for an lvalue that cannot be copied") {
    using movable  = std::unique_ptr<int>;
    using function = void(int);
    CHECK(std::is_same_v<kept_by_value<int>, int>);
    CHECK(std::is_same_v<kept_by_value<int const&>, int>);
    CHECK(std::is_same_v<kept_by_value<function&>, void (*)(int)>);
    CHECK(std::is_same_v<kept_by_value<movable>, movable>);
    CHECK(std::is_same_v<kept_by_value<movable&>, movable&>);
    CHECK(std::is_same_v<kept_by_value<std::reference_wrapper<movable>&>,
                         std::reference_wrapper<movable>>);
}
