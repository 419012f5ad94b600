// SPDX-License-Identifier: Apache-2.0
#include <vram/probe/device_delta.hpp> // first: the header must stand alone

#include <vram/base/bytes.hpp>
#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

using namespace vram;

namespace {

/// The host platform with a device whose memory info the test sets.
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

TEST_CASE("device_delta: it counts memory that any process allocated from the device") {
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

TEST_CASE("device_delta: the peak is the highest value that was sampled") {
    metered_platform::now.free = 900_MiB;
    device_delta<metered_platform> probe;
    metered_platform::now.free = 500_MiB;
    probe.sample();
    metered_platform::now.free = 100_MiB; // it is not sampled
    metered_platform::now.free = 800_MiB;
    CHECK(probe.bytes() == 100_MiB);
    int const asked = metered_platform::asked;
    CHECK(probe.peak() == 400_MiB);
    CHECK(metered_platform::asked == asked); // computed from the sampled values
}

TEST_CASE("device_delta: a device without memory info has the value 0") {
    host_resource memory;
    device_delta  probe{memory};
    static_assert(std::same_as<decltype(probe), device_delta<host_platform>>);
    CHECK(probe.bytes() == 0);
    CHECK(probe.returned() == 0);
    CHECK(probe.peak() == 0);
}

TEST_CASE("device_delta: of a resource, its device is measured and not the current one") {
    sim_node const         node{{.devices = 2}};
    sim_resource           memory{sim_device{1}};
    sim_device_guard const current{sim_device{0}};
    device_delta           probe{memory};
    void* const            p = memory.allocate_sync(1_MiB);
    CHECK(probe.bytes() >= 1_MiB);
    memory.deallocate_sync(p, 1_MiB);
}
