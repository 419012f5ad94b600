// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/resource.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace resource_models { // named, because some compilers warn about unused types
/// The least that is a synchronous resource; each type below misses one thing.
struct least {
    using platform   = host_platform;
    using properties = property_set<host_accessible>;

    void*       allocate_sync(std::size_t, std::size_t) { return nullptr; }
    void        deallocate_sync(void*, std::size_t, std::size_t) noexcept {}
    friend bool operator==(least const&, least const&) = default;
};
struct ordered : least {
    void*       allocate(host_platform::stream, std::size_t, std::size_t) { return nullptr; }
    void        deallocate(host_platform::stream, void*, std::size_t, std::size_t) noexcept {}
    friend bool operator==(ordered const&, ordered const&) = default;
};
struct throwing_free : least {
    void deallocate_sync(void*, std::size_t, std::size_t) {}
};
struct no_equality : least {
    friend bool operator==(no_equality const&, no_equality const&) = delete;
};
struct no_properties : least {
private:
    using least::properties;
};
struct half_ordered : least {
    void* allocate(host_platform::stream, std::size_t, std::size_t) { return nullptr; }
};
struct throwing_ordered_free : ordered {
    void deallocate(host_platform::stream, void*, std::size_t, std::size_t) {}
};
} // namespace resource_models
using namespace resource_models;

TEST_CASE("resource: the synchronous pair makes a synchronous resource, and the stream-ordered "
          "pair a resource") {
    static_assert(synchronous_resource<least> && !resource<least>);
    static_assert(resource<ordered> && synchronous_resource<ordered>);
}

TEST_CASE("resource: a type that lacks one function is not a resource") {
    static_assert(!synchronous_resource<throwing_free>);
    static_assert(!synchronous_resource<no_equality>);
    static_assert(!synchronous_resource<no_properties>);
    static_assert(!resource<half_ordered>);
    static_assert(!resource<throwing_ordered_free>);
    static_assert(!synchronous_resource<int>);
}
