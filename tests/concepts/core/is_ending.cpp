// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/is_ending.hpp> // first: the header stands alone

#include <doctest/doctest.h>

namespace {
struct lasting {};
struct ended {
    static bool ending() noexcept { return true; }
};
} // namespace

TEST_CASE("is_ending: a platform without `ending` never ends") {
    CHECK(vram::detail::is_ending<ended>());
    CHECK_FALSE(vram::detail::is_ending<lasting>());
}
