// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/enqueue_copy.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>

// The waits of the host are tested in sim_copy.cpp.

using namespace vram;
using namespace vram::detail;

TEST_CASE("enqueue_copy: the bytes of a copy are counted for its direction") {
    sim_node            node;
    sim_stream          s;
    sim_resource        device;
    sim_pinned_resource pinned;
    void* const         d = device.allocate_sync(64);
    void* const         p = pinned.allocate_sync(64);
    {
        sim_call     call{node.machine(), sim_call_kind::copy, 0, std::source_location::current()};
        pitched_copy box{.to         = d,
                         .to_pitch   = 16,
                         .to_slice   = 64,
                         .from       = p,
                         .from_pitch = 16,
                         .from_slice = 64,
                         .width      = 16,
                         .height     = 4};
        sim_stream_view const view = s;
        enqueue_copy(call, view.state(), box);
        CHECK(call.machine.schedule.figures(0).bytes_to_device == 64);
        box.to   = p;
        box.from = d;
        enqueue_copy(call, view.state(), box);
        CHECK(call.machine.schedule.figures(0).bytes_to_host == 64);
    }
    s.synchronize();
    pinned.deallocate_sync(p, 64);
    device.deallocate_sync(d, 64);
}
