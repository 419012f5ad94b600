// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/expandable.hpp> // first: the header stands alone

#include <vram/source/null_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

struct growing : null_resource<> {
    static std::size_t page_size() { return 4096; }
    static bool        extend(void*, std::size_t, std::size_t) noexcept { return false; }
    static std::size_t shrink(void*, std::size_t, std::size_t) noexcept { return 0; }
};

struct forgetful : growing {
    static bool        widen(void*, std::size_t, std::size_t) noexcept { return false; }
    static std::size_t mapped(void const*, std::size_t) noexcept { return 0; }
    static bool        fill(void*, std::size_t) noexcept { return false; }
    static std::size_t drop(void*, std::size_t) noexcept { return 0; }
    static std::size_t remap(void*, std::size_t, void*, std::size_t) noexcept { return 0; }
};

struct stitching : forgetful {
    static void* moved_to(void const*) noexcept { return nullptr; }
};

struct throwing_growth : growing {
    static bool extend(void*, std::size_t, std::size_t) { return false; }
};

} // namespace

TEST_CASE("expandable: growing is one power, and moving memory another that includes it") {
    static_assert(!expandable_resource<null_resource<>>);
    static_assert(expandable_resource<growing> && !remappable_resource<growing>);
    static_assert(!remappable_resource<forgetful>);
    static_assert(remappable_resource<stitching>);
    static_assert(!expandable_resource<throwing_growth> || !detail::sees_noexcept);
}
