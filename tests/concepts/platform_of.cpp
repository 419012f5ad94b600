// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/platform_of.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <concepts>

using namespace vram;

namespace {
template <class S>
concept has_platform = requires { typename platform_of<S>; };
} // namespace

TEST_CASE("platform_of: views and owners of streams name their platform, and other types none") {
    static_assert(std::same_as<platform_of<host_platform::stream>, host_platform>);
    static_assert(std::same_as<platform_of<host_platform::own_stream>, host_platform>);
    static_assert(!has_platform<int>);
}
