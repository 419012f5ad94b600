// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/sited.hpp> // first: the header stands alone

#include <vram/base/call_site.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/handle/buffer.hpp>
#include <vram/handle/shared.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/statistics.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>
#include <vram/source/region_resource.hpp>

#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace vram;

namespace {
/// Remembers the lines of its last calls.
struct noting : host_resource {
    static inline unsigned allocated = 0;
    static inline unsigned freed     = 0;

    void* allocate(stream, std::size_t n, std::size_t a = default_alignment,
                   call_site at = call_site::current()) {
        allocated = at.line();
        return host_resource::allocate_sync(n, a);
    }
    void deallocate(stream, void* p, std::size_t n, std::size_t a = default_alignment,
                    call_site at = call_site::current()) noexcept {
        freed = at.line();
        host_resource::deallocate_sync(p, n, a);
    }
    void deallocate_sync(void* p, std::size_t n, std::size_t a = default_alignment,
                         call_site at = call_site::current()) noexcept {
        deallocate({}, p, n, a, at);
    }
};
} // namespace

TEST_CASE("sited: layers and handles pass on the line of the caller") {
    any_resource<host_platform, host_accessible> all{
        limiting{statistics{shared{noting{}}}, std::size_t{1} << 20}};
    unsigned const line = __LINE__ + 1;
    void* const    p    = all.allocate({}, 100);
    all.deallocate({}, p, 100);
    CHECK(noting::allocated == line);
    CHECK(noting::freed == line + 1);
}

TEST_CASE("sited: a buffer passes on the line that constructed it, and its destructor names none") {
    {
        noting         memory;
        unsigned const line = __LINE__ + 1;
        buffer<noting> scratch{memory, {}, 100};
        CHECK(noting::allocated == line);
        scratch.resize(1000);
        CHECK(noting::allocated == line + 2);
    }
    CHECK(noting::freed == 0);
}

TEST_CASE("sited: a chunk that a pool returns has no caller") {
    noting::freed = 1;
    {
        pool memory{noting{}};
        memory.deallocate({}, memory.allocate({}, 100), 100);
        CHECK(memory.trim() != 0);
    }
    CHECK(noting::freed == 0);
    alignas(default_alignment) static std::byte memory[64];

    region_resource        region{memory, sizeof memory};
    doubles::mishaps const told;
    int                    mine = 0;
    sited{region}.deallocate_sync(&mine, sizeof mine, alignof(int));
    CHECK_FALSE(told.last().caller.known());
    region.deallocate_sync(&mine, sizeof mine);
    CHECK(told.last().caller.line() == __LINE__ - 1);
}

TEST_CASE("sited: a deferred free is reported with the line that freed") {
    alignas(default_alignment) static std::byte memory[1024];
    doubles::mishaps const                      told;
    stream_ordered                              ordered{region_resource<>{memory, sizeof memory}};
    void* const                                 p    = ordered.allocate({}, 100);
    unsigned const                              line = __LINE__ + 1;
    ordered.deallocate({}, static_cast<std::byte*>(p) + 512, 100);
    ordered.trim();
    REQUIRE(told.count() == 1);
    CHECK(told.last().caller.line() == line);
    CHECK(std::string{told.last().caller.file()}.ends_with("sited.cpp"));
}
