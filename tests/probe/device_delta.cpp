// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/device_delta.hpp> // first: the header must stand alone

#include <vram/base/bytes.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

/// The host platform with a device whose memory the test sets.
struct metered_platform : host_platform {
    static inline memory_info now{.free = 1_GiB, .total = 1_GiB};
    static inline int         asked = 0;

    static memory_info memory(device) noexcept {
        ++asked;
        return now;
    }
};

} // namespace

template class vram::device_delta<metered_platform>;

TEST_CASE("a device probe counts what anybody took from the device") {
    metered_platform::now.free = 900_MiB;
    device_delta<metered_platform> probe;
    CHECK(probe.bytes() == 0);
    metered_platform::now.free = 700_MiB;
    CHECK(probe.bytes() == 200_MiB);
    CHECK(probe.returned() == 0);
    metered_platform::now.free = 1000_MiB;
    CHECK(probe.bytes() == 0);
    CHECK(probe.returned() == 100_MiB);
}

TEST_CASE("the peak is the highest that was looked at") {
    metered_platform::now.free = 900_MiB;
    device_delta<metered_platform> probe;
    metered_platform::now.free = 500_MiB;
    probe.sample();
    metered_platform::now.free = 100_MiB; // nobody looks
    metered_platform::now.free = 800_MiB;
    CHECK(probe.bytes() == 100_MiB);
    int const asked = metered_platform::asked;
    CHECK(probe.peak() == 400_MiB);
    CHECK(metered_platform::asked == asked); // answered from what was seen
}

TEST_CASE("a device of unknown memory answers 0") {
    host_resource memory;
    device_delta  probe{memory};
    static_assert(std::same_as<decltype(probe), device_delta<host_platform>>);
    CHECK(probe.bytes() == 0);
    CHECK(probe.returned() == 0);
    CHECK(probe.peak() == 0);
}
