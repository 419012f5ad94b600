// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/slot.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;

template struct vram::slot<sim_platform>;
template struct vram::slot<host_platform>;

TEST_CASE("slot: a new one holds nothing and waits for nothing") {
    sim_node                 node;
    slot<sim_platform> const s{sim_device::current(), false};
    CHECK(s.size == 0);
    CHECK(s.pinned == nullptr);
    CHECK_FALSE(s.in_flight);
    CHECK_FALSE(s.in_use);
    CHECK(s.copied.done());
    CHECK(s.released.done());
}

TEST_CASE("slot: copies can be timed where the platform has the time") {
    static_assert(has_timing<sim_platform>);
    static_assert(!has_timing<host_platform>);
    sim_node           node;
    sim_stream         stream;
    slot<sim_platform> s{sim_device::current(), true};
    s.begun.record(stream);
    sim_launch(stream, {.duration = sim_time{5000}});
    s.copied.record(stream);
    stream.synchronize();
    CHECK(sim_platform::elapsed(s.begun, s.copied) == 5000);
}
