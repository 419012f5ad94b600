// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/observer.hpp> // first: the header stands alone

#include <vram/layer/observed.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace observer_models { // named, because some compilers warn about unused types
struct event_counter {
    void observe(memory_event<host_resource::platform::stream> const&) noexcept { ++events; }
    int  events = 0;
};
struct throwing {
    void observe(memory_event<host_resource::platform::stream> const&) {}
};
struct choosy {
    void observe(memory_event<host_resource::platform::stream> const&) noexcept {}
    bool skips(memory_event_kind k) const noexcept { return k == memory_event_kind::freed; }
};
} // namespace observer_models
using namespace observer_models;

TEST_CASE("observer: it accepts events without an exception") {
    using stream = host_resource::platform::stream;
    static_assert(observer<event_counter, stream>);
    static_assert(!observer<throwing, stream>);
    static_assert(observer<choosy, stream> && skipping_observer<choosy>);
    static_assert(!skipping_observer<event_counter>);
    static_assert(!observing_platform<host_resource::platform>);
    static_assert(!observed_resource<host_resource>);
    static_assert(observed_resource<observed<host_resource, event_counter>>);
    memory_event<stream> const e;
    CHECK_FALSE(e.stream.has_value());
    CHECK_FALSE(e.at.known());
    event_counter seen;
    seen.observe(e);
    CHECK(seen.events == 1);
}
