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

TEST_CASE("sim_host_copies: the cache has both source and destination if both are pinned") {
    sim_options o;
    o.host_bandwidth   = 1'000'000'000;
    o.copy_latency     = sim_time{0};
    o.core_cache       = 3000;
    o.cached_bandwidth = 500'000'000;
    sim_node            node{o};
    sim_resource        device;
    sim_pinned_resource mr;
    sim_stream          stream;
    void* const         d         = device.allocate_sync(1000);
    void* const         from      = mr.allocate_sync(1000);
    void* const         to        = mr.allocate_sync(1000);
    auto const          time_from = [&](void* p) {
        sim_time const since = node.now();
        sim_copy(stream, d, p, 1000);
        stream.synchronize();
        return node.now() - since;
    };
    sim_host_copies(to, from, 1000);
    CHECK(time_from(to) == sim_time{2000});
    CHECK(time_from(from) == sim_time{2000});
    CHECK(time_from(to) == sim_time{1000}); // the device's copy took it out of the cache
    mr.deallocate_sync(from, 1000);
    mr.deallocate_sync(to, 1000);
    device.deallocate_sync(d, 1000);
}
