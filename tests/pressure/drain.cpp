// SPDX-License-Identifier: Apache-2.0
#include <vram/pressure/drain.hpp> // first: the header stands alone

#include <vram/handle/any_resource.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/retrying.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

#include "../doubles/faults.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace vram;
using namespace std::chrono_literals;

TEST_CASE("drain: it waits once for the device's work, and the request is repeated") {
    sim_node   node{{.capacity = 1_MiB}};
    retrying   mr{sim_resource{}, drain{}};
    sim_stream s;
    sim_launch(s, {.name = "long", .duration = 5ms});
    CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), out_of_memory);
    CHECK(node.now() == 5ms);
    CHECK(node.figures().refused == 2);
    void* const p = mr.allocate_sync(1_MiB); // no refusal, no wait
    CHECK(node.figures().refused == 2);
    mr.deallocate_sync(p, 1_MiB);
}

TEST_CASE("drain: an error of that wait is passed on") {
    sim_node node{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    retrying mr{sim_resource{}, drain{}};
    node.faults().at(sim_call_kind::synchronize, 1);
    CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), sim_error);
}

TEST_CASE("drain: during a capture the wait throws, and the capture is invalid") {
    sim_node   node{{.capacity = 1_MiB, .on_report = sim_on_report::collect}};
    retrying   mr{sim_resource{}, drain{}};
    sim_stream s;
    sim_graph::begin(s, sim_capture_mode::relaxed);
    CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), sim_error);
    CHECK_THROWS_AS((void)sim_graph::end(s), sim_error);
}

TEST_CASE("drain: it waits for the device of the resource, not the current one") {
    sim_node   node{{.devices = 2, .capacity = 1_MiB, .on_report = sim_on_report::collect}};
    sim_stream here{sim_device{0}}, there{sim_device{1}};
    sim_launch(here, {.duration = 90ms});
    sim_launch(there, {.duration = 5ms});
    auto const refused = [](auto mr) {
        CHECK_THROWS_AS((void)mr.allocate_sync(2_MiB), out_of_memory);
    };
    refused(retrying{sim_resource{sim_device{1}}, drain{}});
    CHECK(node.now() == 5ms);
    sim_launch(there, {.duration = 5ms});
    refused(retrying{limiting{stream_ordered{sim_resource{sim_device{1}}}, 4_MiB}, drain{}});
    CHECK(node.now() == 10ms);
    sim_launch(there, {.duration = 5ms});
    refused(retrying{any_resource<sim_platform>{stream_ordered{sim_resource{sim_device{1}}}},
                     drain{}}); // `any_resource` knows only at run time if it has `trim`
    CHECK(node.now() == 15ms);
    refused(retrying{sim_resource{sim_device{0}}, drain{}});
    CHECK(node.now() == 90ms);
}
