// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_platform.hpp> // first: the header must stand alone

#include <vram/sim/sim.hpp>
#include <vram/sim/sim_graph.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

static_assert(platform<sim_platform>);
static_assert(std::same_as<sim_stream_view::platform, sim_platform>);
static_assert(std::same_as<sim_platform::own_stream, sim_stream>); // as cuda_platform has it

TEST_CASE("sim_platform: every function has the effect of its name") {
    using P = sim_platform;
    sim_node      node{{.copy_latency = sim_time{0}, .on_report = sim_on_report::collect}};
    P::own_stream s, t;
    P::event      e{P::current_device()};
    sim_resource  memory;
    char          host[8]  = "vram!!!";
    char          back[16] = {};
    auto* const   d        = static_cast<char*>(memory.allocate_sync(16));

    CHECK(P::device_of(s.view()) == P::current_device());
    CHECK(P::id(s.view()) != P::id(t.view()));
    CHECK_FALSE(P::capturing(s.view()));
    CHECK(P::capture_of(s.view()) == 0);
    sim_graph::begin(s);
    sim_graph::begin(t);
    CHECK(P::capture_of(s.view()) != 0);
    CHECK(P::capture_of(s.view()) != P::capture_of(t.view()));
    (void)sim_graph::end(t);
    P::record(e, s.view());
    P::wait(t.view(), e);
    CHECK(P::capture_of(s.view()) == P::capture_of(t.view()));
    (void)sim_graph::end(s);
    CHECK(P::capture_of(t.view()) == 0);
    CHECK(P::memory(P::current_device()).total == 16_GiB);
    P::fill(s.view(), d, std::byte{'x'}, 16);
    P::copy(s.view(), d, host, 4);
    P::copy(s.view(), {.to         = d + 8,
                       .to_pitch   = 4,
                       .to_slice   = 8,
                       .from       = host,
                       .from_pitch = 2,
                       .from_slice = 4,
                       .width      = 2,
                       .height     = 2});
    P::record(e, s.view());
    CHECK_FALSE(P::done(e));
    P::wait(t.view(), e);
    P::copy(t.view(), back, d, 16);
    CHECK(std::memcmp(back, "vramxxxxvrxxamxx", 16) == 0);
    P::synchronize(e);
    CHECK(P::done(e));
    bool called = false;
    P::call(s.view(), [](void* p) { *static_cast<bool*>(p) = true; }, &called);
    P::synchronize(s.view());
    CHECK(called);
    P::synchronize(P::current_device());
    CHECK(P::now() == node.now());
    CHECK(node.reports().empty());
    memory.deallocate_sync(d, 16);
}

TEST_CASE("sim_platform: ordinary threads can use it concurrently with real locks") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    std::atomic<int> wrong{0};
    {
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; ++n) {
            threads.emplace_back([&, n] {
                sim_stream          s;
                sim_event           e;
                sim_resource        memory;
                sim_pinned_resource pinned;
                auto* const         h = static_cast<unsigned char*>(pinned.allocate_sync(256));
                for (int i = 0; i < 50; ++i) {
                    auto* const d = static_cast<unsigned char*>(memory.allocate_sync(256));
                    std::memset(h, n * 50 + i, 256);
                    sim_touch({h, 256}, sim_access::write);
                    sim_copy(s, d, h, 256);
                    sim_launch(s, {.reads = {{d, 256}}, .writes = {{d, 256}}},
                               [=] { ++*sim_view(d); });
                    sim_copy(s, h, d, 256);
                    e.record(s);
                    if (i % 2 == 0) {
                        e.synchronize();
                    } else {
                        while (!e.done()) {}
                    }
                    sim_touch({h, 256}, sim_access::read);
                    if (h[0] != static_cast<unsigned char>(n * 50 + i + 1)) { ++wrong; }
                    memory.deallocate_sync(d, 256);
                }
                pinned.deallocate_sync(h, 256);
            });
        }
        for (auto& t : threads) { t.join(); }
    }
    CHECK(wrong == 0);
    CHECK(node.reports().empty());
}

TEST_CASE("sim_platform: it returns the kind of an address, and accepts copies of the host") {
    for (bool const tables : {false, true}) {
        sim_node      node{{.host_copy_bandwidth = 1_GB, .host_page_tables = tables}};
        sim_resource  memory;
        void* const   p = memory.allocate_sync(100);
        unsigned char plain[100];
        CHECK(sim_platform::memory_kind_of(p) == memory_kind::device);
        CHECK(sim_platform::memory_kind_of(plain) == memory_kind::pageable);
        CHECK(sim_platform::uses_host_page_tables(sim_device{}) == tables);
        sim_platform::host_copies(plain, nullptr, 100);
        CHECK(node.now() == sim_time{100});
        memory.deallocate_sync(p, 100);
    }
}
