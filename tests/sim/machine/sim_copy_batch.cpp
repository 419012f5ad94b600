// SPDX-License-Identifier: Apache-2.0
#include <vram/sim/machine/sim_copy_batch.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

TEST_CASE("sim_copy_batch: many copies cost the host one call, and are stream-ordered") {
    sim_node node{
        {.host_bandwidth = 1_GB, .copy_latency = sim_time{10}, .call_cost = sim_time{100}}};
    sim_stream const    stream;
    sim_resource        device;
    sim_pinned_resource pinned;
    auto* const         d = static_cast<std::byte*>(device.allocate_sync(300));
    auto* const         p = static_cast<std::byte*>(pinned.allocate_sync(300));
    for (int i = 0; i < 300; ++i) { p[i] = static_cast<std::byte>(i); }
    void* const       to[]    = {d, d + 100, d + 250};
    void const* const from[]  = {p + 200, p + 100, p};
    std::size_t const bytes[] = {100, 100, 50};
    auto const        begin   = node.now();
    CHECK(sim_copy_batch(stream, to, from, bytes));
    CHECK(node.now() == begin + sim_time{100});
    sim_launch(stream, {.name = "use", .reads = {{d, 200}, {d + 250, 50}}});
    stream.synchronize();
    CHECK(sim_view(std::span{d, 300})[0] == std::byte{200});
    CHECK(sim_view(std::span{d, 300})[299] == std::byte{49});
    CHECK(node.reports().empty());
    pinned.deallocate_sync(p, 300);
    device.deallocate_sync(d, 300);
}

TEST_CASE(
    "sim_copy_batch: default streams and captures are refused, and an injected fault is thrown") {
    sim_node          node;
    sim_stream const  stream;
    char              a = 1, b = 0;
    void* const       to[]    = {&b};
    void const* const from[]  = {&a};
    std::size_t const bytes[] = {1};
    CHECK_FALSE(sim_copy_batch(sim_stream_view{}, to, from, bytes));
    sim_graph::begin(stream, sim_capture_mode::relaxed);
    CHECK_FALSE(sim_copy_batch(stream, to, from, bytes));
    auto const graph = sim_graph::end(stream);
    CHECK(b == 0);
    node.faults().at(sim_call_kind::copy, 1);
    CHECK_THROWS_AS(sim_copy_batch(stream, to, from, bytes), sim_error);
    CHECK(sim_copy_batch(stream, {}, {}, {}));
    CHECK(sim_copy_batch(stream, to, from, bytes));
    stream.synchronize();
    CHECK(b == 1);
}

TEST_CASE("sim_copy_batch: copies of one batch that depend on each other are reported") {
    sim_node         node{{.on_report = sim_on_report::collect}};
    sim_stream const stream;
    sim_resource     device;
    auto* const      p     = static_cast<std::byte*>(device.allocate_sync(4096));
    auto const       batch = [&](std::size_t from, std::size_t to) {
        void* const       targets[] = {p + 1024, p + to};
        void const* const sources[] = {p, p + from};
        std::size_t const bytes[]   = {512, 512};
        CHECK(sim_copy_batch(stream, targets, sources, bytes));
        return node.take_reports().size();
    };
    CHECK(batch(2048, 3072) == 0);
    CHECK(batch(0, 3072) == 0);    // one source may be read twice
    CHECK(batch(1024, 3072) == 1); // reads the destination of the first copy
    CHECK(batch(2048, 1500) == 1); // writes part of it
    CHECK(batch(2048, 256) == 1);  // writes the source of the first copy
    stream.synchronize();
    device.deallocate_sync(p, 4096);
}
