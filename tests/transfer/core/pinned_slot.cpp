// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/core/pinned_slot.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

template struct vram::detail::pinned_slot<sim_platform>;
template struct vram::detail::pinned_slot<host_platform>;

TEST_CASE("pinned_slot: a new slot is empty, and has no copy in flight") {
    sim_node                        node;
    pinned_slot<sim_platform> const p{sim_device::current(), false};
    CHECK(p.memory == nullptr);
    CHECK(p.now == pinned_slot<sim_platform>::state::empty);
    CHECK(p.copy_number == 0);
    CHECK_FALSE((p.in_flight || p.unmeasured || p.pageable));
    CHECK(p.copied.done());
}

TEST_CASE("pinned_slot: copies can be timed if the platform has timed events") {
    static_assert(has_timing<sim_platform>);
    static_assert(!has_timing<host_platform>);
    sim_node                  node;
    sim_stream                stream;
    pinned_slot<sim_platform> p{sim_device::current(), true};
    p.begun.record(stream);
    sim_launch(stream, {.duration = sim_time{5000}});
    p.copied.record(stream);
    stream.synchronize();
    CHECK(sim_platform::elapsed(p.begun, p.copied) == 5000);
}
