// SPDX-License-Identifier: Apache-2.0
// The simulated machine itself in a file that nvcc compiles: it needs no device.

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstdint> // uint32_t
#include <cstring> // memset
#include <span>    // span
#include <vector>  // vector

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("nvcc: streams, events, copies and every kind of memory of the simulated device") {
    sim_options          options{.devices = 2};
    sim_node             node{options};
    sim_device const     second{1};
    sim_resource         memory;
    sim_pinned_resource  pinned;
    sim_managed_resource managed;
    {
        sim_device_guard const on{second};
        CHECK(sim_device::current() == second);
    }
    sim_stream const      first, other;
    sim_stream_view const view = first;
    auto* const           p    = static_cast<std::byte*>(memory.allocate_sync(1000));
    auto* const           h    = static_cast<std::byte*>(pinned.allocate_sync(1000));
    auto* const           m    = static_cast<std::byte*>(managed.allocate_sync(1000));
    std::memset(h, 3, 1000);
    sim_copy(view, p, h, 1000);
    sim_event done;
    done.record(first);
    done.wait(other);
    sim_copy(other, m, p, 1000);
    other.synchronize();
    CHECK(m[999] == std::byte{3});
    sim_figures const figures = node.figures(0);
    CHECK(figures.bytes_to_device == 1000);
    std::vector<sim_report> const reports = node.take_reports();
    CHECK(reports.empty());
    memory.deallocate_sync(p, 1000);
    pinned.deallocate_sync(h, 1000);
    managed.deallocate_sync(m, 1000);
}

TEST_CASE("nvcc: a graph, injected faults and threads of the simulated device") {
    sim_node         node;
    sim_resource     memory;
    sim_stream const stream;
    auto* const      p    = static_cast<std::byte*>(memory.allocate_sync(64));
    auto const       all  = std::span{p, 64};
    int              runs = 0;
    sim_graph::begin(stream);
    sim_launch(stream, {.name = "count", .writes = {all}}, [&] { ++runs; });
    sim_graph graph = sim_graph::end(stream);
    graph.launch(stream);
    graph.launch(stream);
    stream.synchronize();
    CHECK(runs == 2);
    memory.deallocate_sync(p, 64);

    bool interrupted = false;
    sim_interrupt::before(1, [&] { interrupted = true; });
    sim_range const nothing{};
    CHECK(nothing.begin() == nothing.end());
    sim_fill(stream, memory.allocate_sync(0), std::byte{}, 0);
    sim_time const now = node.now();
    CHECK(now.count() >= 0);
    stream.synchronize();
    CHECK(sim_interrupt::end() == interrupted);

    sim_faults& faults = node.faults();
    faults.at(sim_call_kind::allocate, 1);
    CHECK_THROWS_AS((void)memory.allocate_sync(64), out_of_memory);
    CHECK_THROWS_AS((void)sim_graph::end(stream), sim_error); // no capture has begun

    sim_platform::lock lock;
    sim_gate           gate; // sim_platform::gate
    bool               ready = false;
    {
        sim_thread worker{sim_device::current(), [&] {
                              sim_work(30us);
                              { auto const held = lock.hold(); }
                              {
                                  auto held = gate.hold();
                                  ready     = true;
                              }
                              gate.notify();
                          }};
        worker.join();
    }
    CHECK(ready);
}

TEST_CASE("nvcc: a stream of the simulated device waits for a value in memory") {
    sim_node         node;
    sim_resource     memory;
    sim_stream const writer, waiter;
    auto* const      flag = static_cast<std::uint32_t*>(memory.allocate_sync(256));
    sim_range const  word{flag + 8, sizeof(*flag)};
    sim_write_value(writer, flag, 0);
    writer.synchronize();
    sim_launch(writer, {.name = "fill", .writes = {word}});
    sim_write_value(writer, flag, 1);
    sim_wait_value(waiter, flag, 1, sim_value_is::equal);
    sim_launch(waiter, {.name = "use", .reads = {word}});
    waiter.synchronize();
    memory.deallocate_sync(flag, 256);
    CHECK(node.reports().empty());
}

TEST_CASE("nvcc: every order of two threads of the simulated device") {
    auto const found = sim_explore({.node = {.preemptions = 1}}, [](sim_node&) {
        int const  token = 0;
        sim_thread one{sim_device::current(), [&] {
                           sim_work(1us);
                           sim_happens_before(&token);
                       }};
        sim_thread two{sim_device::current(), [&] {
                           sim_work(1us);
                           sim_happens_after(&token);
                       }};
    });
    CHECK(found.failures == 0);
}
