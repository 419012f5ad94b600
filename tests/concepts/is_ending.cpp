// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/is_ending.hpp> // first: the header stands alone

#include <doctest/doctest.h>

namespace {
struct lasting {};
struct ended {
    static bool ending() noexcept { return true; }
};
} // namespace

TEST_CASE("is_ending: a platform without `ending` never ends") {
    CHECK(vram::is_ending<ended>());
    CHECK_FALSE(vram::is_ending<lasting>());
}
