// SPDX-License-Identifier: Apache-2.0
#include <vram/base/core/first_exception.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <stdexcept> // runtime_error, logic_error
#include <string>

using namespace vram;
using namespace vram::detail;

TEST_CASE("first_exception: every call is made, the first exception is thrown, and the others are "
          "reported") {
    doubles::mishaps const told;
    first_exception        failed;
    int                    calls = 0;
    CHECK_NOTHROW(failed.rethrow());
    failed.of([&] { ++calls; });
    CHECK_NOTHROW(failed.rethrow());
    failed.of([&] {
        ++calls;
        throw std::runtime_error{"one"};
    });
    failed.of([&] {
        ++calls;
        throw std::logic_error{"two"};
    });
    CHECK(calls == 3);
    CHECK(told.count(error_kind::lost_exception) == 1);
    CHECK(told.count() == 1);
    CHECK_THROWS_AS(failed.rethrow(), std::runtime_error);
}
