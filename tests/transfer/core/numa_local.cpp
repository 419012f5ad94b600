// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/numa_local.hpp> // first: the header stands alone

#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace near_devices {
struct counted_guard {
    explicit counted_guard(host_platform::device) { ++made; }
    ~counted_guard() { ++ended; }
    static inline int made = 0, ended = 0;
};
struct knowing : host_platform {
    using numa_local = counted_guard;
};
} // namespace near_devices
using near_devices::counted_guard;
using near_devices::knowing;

TEST_CASE("numa_local: the platform's guard exists for the scope, if it is wanted") {
    static_assert(has_near_device<knowing> && !has_near_device<host_platform>);
    { numa_local<knowing> const unwanted{{}, false}; }
    CHECK(counted_guard::made == 0);
    {
        numa_local<knowing> const wanted{{}, true};
        CHECK(counted_guard::made == 1);
        CHECK(counted_guard::ended == 0);
    }
    CHECK(counted_guard::ended == 1);
    numa_local<host_platform> const nothing{{}, true};
}
