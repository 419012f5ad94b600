// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_host_copies.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_host_copies: a copy takes the time of the host bandwidth, or none if that is 0") {
    sim_node            slow{{.host_copy_bandwidth = 10_GB}};
    sim_pinned_resource mr;
    void* const         p = mr.allocate_sync(1000);
    char                plain[1000];
    sim_host_copies(p, plain, 1000);
    CHECK(slow.now() == sim_time{100});
    sim_host_copies(nullptr, p, 1000);
    CHECK(slow.now() == sim_time{200});
    mr.deallocate_sync(p, 1000);
    sim_node fast;
    sim_host_copies(plain, nullptr, 1000);
    CHECK(fast.now() == sim_time{});
}

TEST_CASE("sim_host_copies: a chunk that a device is still copying is reported, as source and as "
          "destination") {
    for (bool const fills : {true, false}) {
        sim_node            node{{.on_report = sim_on_report::collect}};
        sim_resource        device;
        sim_pinned_resource mr;
        sim_stream          stream;
        void* const         d = device.allocate_sync(1000);
        void* const         p = mr.allocate_sync(1000);
        char                plain[1000];
        if (fills) {
            sim_copy(stream, d, p, 1000);
            sim_host_copies(p, plain, 1000);
        } else {
            sim_copy(stream, p, d, 1000);
            sim_host_copies(plain, p, 1000);
        }
        stream.synchronize();
        REQUIRE(node.reports().size() == 1);
        CHECK(node.take_reports().front().kind == sim_mistake::race);
        mr.deallocate_sync(p, 1000);
        device.deallocate_sync(d, 1000);
    }
}
