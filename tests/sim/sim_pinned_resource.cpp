// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_pinned_resource.hpp> // first: the header must stand alone

#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstring>
#include <vector>

using namespace vram;

static_assert(has_property<sim_pinned_resource, host_accessible>);
static_assert(has_property<sim_pinned_resource, device_accessible>);

TEST_CASE("sim_pinned_resource: the host and the device use the same bytes") {
    sim_node const      node;
    sim_pinned_resource pinned;
    sim_stream          s;
    auto* const         h = static_cast<char*>(pinned.allocate_sync(64, 4096));
    CHECK(reinterpret_cast<std::uintptr_t>(h) % 4096 == 0);
    std::memset(h, 1, 64);
    sim_launch(s, {.writes = {{h, 64}}}, [=] { std::memset(sim_view(h), 2, 64); });
    s.synchronize();
    CHECK(h[63] == 2);
    pinned.deallocate_sync(h, 64);
}

TEST_CASE("sim_pinned_resource: it uses no device memory, and has a limit of its own") {
    sim_node const      node{{.capacity = 1_MiB, .pinned_capacity = 2_MiB}};
    sim_pinned_resource pinned;
    void* const         p = pinned.allocate_sync(2_MiB);
    CHECK(sim_device{}.memory().free == 1_MiB);
    CHECK(pinned.try_allocate_sync(3_MiB) == nullptr);
    CHECK(pinned.try_allocate_sync(SIZE_MAX) == nullptr);
    pinned.deallocate_sync(p, 2_MiB);
}

TEST_CASE("sim_pinned_resource: the limit applies to the live bytes of each kind") {
    sim_node const       node{{.pinned_capacity = 1_MiB}};
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    void* const          p = pinned.allocate_sync(512_KiB);
    void* const          q = pinned.allocate_sync(512_KiB - 100); // counted as whole granules
    CHECK(pinned.try_allocate_sync(1) == nullptr);
    void* const r = managed.allocate_sync(1_MiB); // has as much of its own
    CHECK(managed.try_allocate_sync(1) == nullptr);
    pinned.deallocate_sync(p, 512_KiB);
    CHECK(pinned.try_allocate_sync(600_KiB) == nullptr);
    void* const again = pinned.allocate_sync(512_KiB);
    CHECK(pinned.try_allocate_sync(1) == nullptr);
    pinned.deallocate_sync(again, 512_KiB);
    pinned.deallocate_sync(q, 512_KiB - 100);
    managed.deallocate_sync(r, 1_MiB);
    void* const all = pinned.allocate_sync(1_MiB);
    pinned.deallocate_sync(all, 1_MiB);
}

TEST_CASE("sim_pinned_resource: a pool allocates large blocks, rounds to no power of two, and has "
          "a limit") {
    sim_node node;
    {
        pool<limiting<sim_pinned_resource>> mr{limiting{sim_pinned_resource{}, 40_MiB}};
        void* const                         large = mr.allocate_sync(17_MiB); // not 32
        CHECK(mr.usage().reserved <= 20_MiB);
        auto const         pinned = node.faults().calls(sim_call_kind::allocate_host);
        std::vector<void*> blocks;
        for (int i = 0; i < 100; ++i) { blocks.push_back(mr.allocate_sync(10'000)); }
        CHECK(node.faults().calls(sim_call_kind::allocate_host) <= pinned + 1);
        for (void* const each : blocks) { mr.deallocate_sync(each, 10'000); }
        CHECK_THROWS_AS((void)mr.allocate_sync(33_MiB), std::bad_alloc);
        mr.deallocate_sync(large, 17_MiB);
        mr.deallocate_sync(mr.allocate_sync(33_MiB), 33_MiB); // idle memory is returned first
        CHECK(mr.usage().live == 0);
    }
    node.finish();
    CHECK(node.reports().empty());
}
