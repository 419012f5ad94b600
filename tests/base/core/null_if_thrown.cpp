// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/null_if_thrown.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <new>
#include <stdexcept>

using namespace vram::detail;

TEST_CASE("null_if_thrown: a refusal is null, and another exception is reported as well") {
    doubles::mishaps const told;
    int                    block = 0;
    CHECK(null_if_thrown("pool", 4, [&]() -> void* { return &block; }) == &block);
    CHECK(null_if_thrown("pool", 4, []() -> void* { throw std::bad_alloc{}; }) == nullptr);
    CHECK(told.count() == 0);
    CHECK(null_if_thrown("pool", 4, []() -> void* { throw std::runtime_error{"off"}; }) == nullptr);
    CHECK(told.count() == 1);
}
