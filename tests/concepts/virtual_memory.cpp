// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/virtual_memory.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

/// Does nothing, in every way that is asked for.
struct idle_pages {
    using platform = host_platform;
    using handle   = int;

    static std::size_t granularity() { return 4096; }
    static memory_info memory() { return {}; }
    static void*       reserve(std::size_t, std::size_t) { return nullptr; }
    static void        release(void*, std::size_t) noexcept {}
    static handle      create(std::size_t) { return 0; }
    static void        destroy(handle, std::size_t) noexcept {}
    static void        map(void*, handle, std::size_t) {}
    static void        set_access(void*, std::size_t) {}
    static void        unmap(void*, std::size_t) {}
};

struct exported_pages : idle_pages {
    static int export_handle(handle) { return 0; }
};

struct throwing_release : idle_pages {
    static void release(void*, std::size_t) {}
};

} // namespace

TEST_CASE("virtual_memory: a type with all functions is one, and a type that lacks one is not") {
    static_assert(virtual_memory<idle_pages>);
    static_assert(!exportable_memory<idle_pages>);
    static_assert(exportable_memory<exported_pages>);
    static_assert(!virtual_memory<throwing_release> || !detail::sees_noexcept);
    static_assert(!virtual_memory<int>);
}
