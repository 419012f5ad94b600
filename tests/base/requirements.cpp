// SPDX-License-Identifier: Apache-2.0
// cmake/requirements.py checks the messages of compilers that are not set up for vram.
#include <vram/base/requirements.hpp>

#include <doctest/doctest.h>

TEST_CASE("requirements: C++20 with exceptions compiles") {
    static_assert(__cplusplus >= 202002L);
    bool caught = false;
    try {
        throw 1;
    } catch (int) { caught = true; }
    CHECK(caught);
}
