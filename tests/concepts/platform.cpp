// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/platform.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;

// The host is a platform; with one part missing it is none. Each archetype misses one.
namespace {
struct no_streams : host_platform {
    struct own_stream {};
};
struct no_events : host_platform {
    struct event {};
};
struct no_devices : host_platform {
    struct device_guard {};
};
struct no_copies : host_platform {
    static void fill(stream, void*, std::byte, std::size_t) = delete;
};
struct no_threads : host_platform {
private:
    using host_platform::gate;
};
struct no_memory : host_platform {
private:
    using host_platform::pinned_resource;
};
} // namespace

TEST_CASE("platform: host_platform has every part") {
    static_assert(has_streams<host_platform> && has_events<host_platform> &&
                  has_devices<host_platform>);
    static_assert(has_copies<host_platform> && has_threads<host_platform> &&
                  has_memory<host_platform>);
    static_assert(platform<host_platform>);
    static_assert(!platform<int>);
}

TEST_CASE("platform: a type that lacks one part is not a platform") {
    static_assert(!has_streams<no_streams> && !platform<no_streams>);
    static_assert(!has_events<no_events> && !platform<no_events>);
    static_assert(!has_devices<no_devices> && !platform<no_devices>);
    static_assert(!has_copies<no_copies> && !platform<no_copies>);
    static_assert(!has_threads<no_threads> && !platform<no_threads>);
    static_assert(!has_memory<no_memory> && !platform<no_memory>);
}
