// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/sim_faults.hpp> // first: the header must stand alone

#include <vram/base/error.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include "../doubles/collecting.hpp"
#include "../doubles/contracts_throw.hpp"
#include "../doubles/mishaps.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace vram;
using doubles::status_of;
using namespace std::chrono_literals;

namespace {
sim_options instant_copies() {
    return {.copy_latency = sim_time{0}, .on_report = sim_on_report::collect};
}

} // namespace

TEST_CASE("sim_faults: the n-th allocation is refused, and the ones before and after it succeed") {
    sim_node     node{instant_copies()};
    sim_resource mr;
    node.faults().at(sim_call_kind::allocate, 2);
    void* const a = mr.try_allocate_sync(64);
    CHECK(a != nullptr);
    CHECK(mr.try_allocate_sync(64) == nullptr);
    void* const b = mr.allocate_sync(64);
    CHECK(node.faults().calls(sim_call_kind::allocate) == 3);
    node.faults().at(sim_call_kind::allocate, 1);
    CHECK_THROWS_AS(static_cast<void>(mr.allocate_sync(64)), out_of_memory);
    mr.deallocate_sync(a, 64);
    mr.deallocate_sync(b, 64);
}

TEST_CASE("sim_faults: the number 0 is refused, because no call has it") {
    sim_node                       node{instant_copies()};
    doubles::contracts_throw const throws;
    CHECK_THROWS_AS(node.faults().at(sim_call_kind::launch, 0), doubles::broken_contract);
}

TEST_CASE("sim_faults: consecutive calls fail, counted from the injection of the fault") {
    sim_node     node{instant_copies()};
    sim_resource mr;
    mr.deallocate_sync(mr.allocate_sync(8), 8);
    node.faults().at(sim_call_kind::allocate, 1, {}, 3);
    for (int i = 0; i < 3; ++i) { CHECK(mr.try_allocate_sync(8) == nullptr); }
    mr.deallocate_sync(mr.allocate_sync(8), 8);
}

TEST_CASE("sim_faults: random faults repeat with the same seed") {
    auto const run = [](std::uint64_t seed) {
        sim_node     node{instant_copies()};
        sim_resource mr;
        node.faults().randomly(sim_call_kind::allocate, 0.5, seed);
        std::vector<bool> refused;
        for (int i = 0; i < 100; ++i) {
            void* const p = mr.try_allocate_sync(8);
            refused.push_back(p == nullptr);
            mr.deallocate_sync(p, 8);
        }
        return refused;
    };
    auto const one = run(1);
    CHECK(one == run(1));
    CHECK(one != run(2));
    auto const count = std::count(one.begin(), one.end(), true);
    CHECK(count > 20);
    CHECK(count < 80);
}

TEST_CASE("sim_faults: a predicate chooses by kind, size and device") {
    sim_node     node{instant_copies()};
    sim_resource mr;
    node.faults().when(
        [](sim_call_info const& c) { return c.kind == sim_call_kind::allocate && c.bytes > 1000; });
    CHECK(mr.try_allocate_sync(1001) == nullptr);
    void* const p = mr.try_allocate_sync(1000);
    CHECK(p != nullptr);
    node.faults().clear();
    void* const q = mr.allocate_sync(1001);
    mr.deallocate_sync(p, 1000);
    mr.deallocate_sync(q, 1001);
}

TEST_CASE("sim_faults: memory that another process allocated is unavailable until it is freed") {
    sim_options o = instant_copies();
    o.capacity    = 1_MiB;
    sim_node     node{o};
    sim_resource mr;
    node.take(0, 900_KiB);
    CHECK(sim_device{}.memory().free == 124_KiB);
    CHECK_THROWS_AS(static_cast<void>(mr.allocate_sync(512_KiB)), out_of_memory);
    node.give_back(0, 900_KiB);
    CHECK(sim_device{}.memory() == memory_info{1_MiB, 1_MiB});
    mr.deallocate_sync(mr.allocate_sync(512_KiB), 512_KiB);
    node.take(0, 4_MiB); // more than there is
    CHECK(sim_device{}.memory().free == 0);
}

TEST_CASE("sim_faults: a copy fails at once, or the next synchronisation fails, once or always") {
    sim_node            node{instant_copies()};
    sim_resource        mr;
    sim_pinned_resource pinned;
    sim_stream          s;
    auto* const         d = static_cast<char*>(mr.allocate_sync(16));
    auto* const         h = static_cast<char*>(pinned.allocate_sync(16));
    h[0]                  = 1;
    node.faults().at(sim_call_kind::copy, 1, {.status = sim_status::copy_failed});
    CHECK(status_of([&] { sim_copy(s, d, h, 16); }) == sim_status::copy_failed);

    node.faults().at(sim_call_kind::copy, 1, {.status = sim_status::copy_failed, .later = true});
    CHECK(status_of([&] { sim_copy(s, d, h, 16); }) == sim_status::ok);
    CHECK(status_of([&] { s.synchronize(); }) == sim_status::copy_failed);
    CHECK(status_of([&] { s.synchronize(); }) == sim_status::ok);
    CHECK(*sim_view(d) == 0); // it moved nothing

    node.faults().at(sim_call_kind::launch, 1,
                     {.status = sim_status::launch_failed, .later = true, .sticky = true});
    sim_launch(s, {});
    CHECK(status_of([&] { s.synchronize(); }) == sim_status::launch_failed);
    CHECK(status_of([&] { sim_device{}.synchronize(); }) == sim_status::launch_failed);
    mr.deallocate_sync(d, 16);
    pinned.deallocate_sync(h, 16);
}

TEST_CASE("sim_faults: a slow copy takes the injected duration longer") {
    sim_node            node{instant_copies()};
    sim_resource        mr;
    sim_pinned_resource pinned;
    sim_stream          s;
    void* const         d = mr.allocate_sync(25000);
    void* const         h = pinned.allocate_sync(25000);
    node.faults().at(sim_call_kind::copy, 1, {.slow = 5ms});
    sim_copy(s, d, h, 25000);
    s.synchronize();
    CHECK(node.now() == 5ms + 1us);
    mr.deallocate_sync(d, 25000);
    pinned.deallocate_sync(h, 25000);
}

TEST_CASE("sim_faults: events, streams and pinned memory can be refused") {
    sim_node node{instant_copies()};
    node.faults().at(sim_call_kind::create_event, 1);
    node.faults().at(sim_call_kind::create_stream, 1);
    node.faults().at(sim_call_kind::allocate_host, 1);
    CHECK(status_of([] { sim_event e; }) == sim_status::refused);
    CHECK(status_of([] { sim_stream s; }) == sim_status::refused);
    CHECK_THROWS_AS(static_cast<void>(sim_pinned_resource{}.allocate_sync(8)), out_of_memory);
    sim_event const  e;
    sim_stream const s;
}

TEST_CASE("sim_faults: a thread is delayed by the injected time") {
    sim_node   node{instant_copies()};
    sim_stream s;
    sim_event  e;
    node.faults().at(sim_call_kind::record, 1, {.stall = 3ms});
    e.record(s);
    CHECK(node.now() == 3ms);
}

TEST_CASE("sim_faults: after the loss of a device every call on it fails, and calls on other "
          "devices succeed") {
    sim_options o = instant_copies();
    o.devices     = 2;
    sim_node     node{o};
    sim_resource mr;
    sim_stream   s, other{sim_device{1}};
    sim_event    e;
    void* const  p = mr.allocate_sync(8);
    node.faults().at(sim_call_kind::launch, 1, {.status = sim_status::device_lost, .lost = true});
    CHECK(status_of([&] { sim_launch(s, {}); }) == sim_status::device_lost);
    CHECK(status_of([&] { sim_launch(s, {}); }) == sim_status::device_lost);
    CHECK(status_of([&] { e.record(s); }) == sim_status::device_lost);
    CHECK(status_of([&] { static_cast<void>(e.done()); }) == sim_status::device_lost);
    CHECK(status_of([&] { s.synchronize(); }) == sim_status::device_lost);
    CHECK(status_of([&] { static_cast<void>(mr.allocate_sync(8)); }) == sim_status::device_lost);
    CHECK(mr.try_allocate_sync(8) == nullptr);
    CHECK(status_of([&] { sim_launch(other, {}); }) == sim_status::ok);
    CHECK(status_of([&] { other.synchronize(); }) == sim_status::ok);

    static int code   = 0;
    auto const before = set_error_sink([](error const& told) noexcept { code = told.code; });
    mr.deallocate_sync(p, 8);
    set_error_sink(before);
    CHECK(code == static_cast<int>(sim_status::device_lost));
}

TEST_CASE("sim_faults: work that uses memory of a lost device is refused on every device, as are "
          "launches of graphs that contain it") {
    sim_options o = instant_copies();
    o.devices     = 2;
    o.peer_access = true;
    sim_node     node{o};
    sim_resource gone, good{sim_device{1}};
    sim_stream   s, other{sim_device{1}};
    void* const  a = gone.allocate_sync(64);
    void* const  b = good.allocate_sync(64);
    void* const  c = good.allocate_sync(64);
    sim_fill(other, b, std::byte{1}, 64);
    sim_fill(other, a, std::byte{1}, 64);
    sim_graph::begin(other);
    sim_copy(other, b, a, 64);
    sim_graph const graph = sim_graph::end(other);
    sim_graph::begin(other);
    sim_launch(other, {.reads = {{a, 64}}});
    sim_graph const reading = sim_graph::end(other);
    sim_graph::begin(s);
    sim_launch(s, {});
    sim_graph const there = sim_graph::end(s);
    node.faults().at(sim_call_kind::launch, 1, {.lost = true});
    CHECK(status_of([&] { sim_launch(s, {}); }) == sim_status::device_lost);
    sim_kernel const kernels[] = {
        {.reads = {{a, 64}}}, {.writes = {{a, 64}}}, {.atomics = {{a, 64}}}};
    sim_communicator const two{2};
    for (sim_kernel const& k : kernels) {
        CHECK(status_of([&] { sim_launch(other, k); }) == sim_status::device_lost);
        CHECK(status_of([&] { sim_collective(other, two, 0, k); }) == sim_status::device_lost);
    }
    CHECK(status_of([&] { reading.launch(other); }) == sim_status::device_lost);
    CHECK(status_of([&] { there.launch(other); }) == sim_status::device_lost);
    CHECK(status_of([&] { sim_launch(other, {.reads = {{b, 64}}}); }) == sim_status::ok);
    CHECK(status_of([&] { sim_copy(other, b, a, 64); }) == sim_status::device_lost);
    CHECK(status_of([&] { sim_copy(other, a, b, 64); }) == sim_status::device_lost);
    CHECK(status_of([&] { sim_fill(other, a, std::byte{}, 64); }) == sim_status::device_lost);
    CHECK(status_of([&] { graph.launch(other); }) == sim_status::device_lost);
    CHECK(status_of([&] { sim_copy(other, c, b, 64); }) == sim_status::ok);
    CHECK(status_of([&] { other.synchronize(); }) == sim_status::ok);
    good.deallocate_sync(b, 64);
    good.deallocate_sync(c, 64);
    node.finish();
    CHECK(node.reports().empty());
}

TEST_CASE_TEMPLATE("sim_faults: the loss of a device is one message, and its memory is no leak", P,
                   pool<stream_ordered<sim_resource>>, stream_ordered<sim_resource>,
                   pool<sim_virtual_resource>, sim_async_resource,
                   pool<stream_ordered<sim_pinned_resource>>) {
    for (int node_number = 0; node_number < 2; ++node_number) { // each node reports its loss
        doubles::mishaps const told;
        sim_node               node{instant_copies()};
        {
            P           memory{};
            sim_stream  s, other;
            void* const p = memory.allocate(s, 1_MiB);
            void* const q = memory.allocate(s, 1_MiB);
            memory.deallocate(s, q, 1_MiB);
            node.faults().at(sim_call_kind::launch, 1, {.lost = true});
            CHECK(status_of([&] { sim_launch(s, {}); }) == sim_status::device_lost);
            for (int i = 0; i < 3; ++i) {
                CHECK_THROWS(static_cast<void>(memory.allocate(other, 64_MiB)));
            }
            memory.deallocate(s, p, 1_MiB);
        }
        node.finish();
        CHECK(node.reports().empty());
        CHECK(told.count() == 1);
        CHECK(told.count(error_kind::platform_error) == 1);
        CHECK(told.last().code == static_cast<int>(sim_status::device_lost));
    }
    doubles::mishaps const told;
    report_error({.kind = error_kind::leak});
    CHECK(told.count(error_kind::leak) == 1);
}

TEST_CASE("sim_faults: after the loss of a device, leaks of another device are reported") {
    sim_options o = instant_copies();
    o.devices     = 2;
    sim_node     node{o};
    sim_resource gone, good{sim_device{1}};
    sim_stream   s;
    static_cast<void>(gone.allocate_sync(64));
    static_cast<void>(good.allocate_sync(32));
    node.faults().at(sim_call_kind::launch, 1, {.lost = true});
    CHECK(status_of([&] { sim_launch(s, {}); }) == sim_status::device_lost);
    node.finish();
    REQUIRE(node.reports().size() == 1);
    CHECK(node.reports().front().kind == sim_mistake::leak);
    CHECK(node.reports().front().bytes == 32);
}
