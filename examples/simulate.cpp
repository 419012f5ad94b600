// SPDX-License-Identifier: Apache-2.0
// The simulated device: simulated time, injected faults, and all orders of two threads.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <span>

using namespace vram;
using namespace std::chrono_literals;

namespace {

void time_and_checks() {
    // [time]
    sim_node node{{.devices = 2, .capacity = 8_GiB}}; // without one: a node with default options

    constexpr std::size_t n = 1 << 20;
    sim_resource          memory; // device 0, as cudaMalloc
    sim_stream            stream;
    auto* const           x = static_cast<float*>(memory.allocate_sync(n * sizeof(float)));
    sim_range const       all{x, n * sizeof(float)};
    sim_launch(stream, {.name = "fill", .writes = {all}, .duration = 20us}, [=] {
        for (float& value : sim_view(std::span{x, n})) { value = 2; }
    });
    stream.synchronize();
    expects(node.now() >= 20us && node.now() < 40us, "the kernel, and little more");
    memory.deallocate_sync(x, n * sizeof(float));
    expects(node.reports().empty(), "no mistake was seen");
    // [/time]
}

void faults() {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream stream;
    // [faults]
    // The second allocation from now is refused:
    node.faults().at(sim_call_kind::allocate, 2);
    // With a seed, one copy in a hundred is late:
    node.faults().randomly(sim_call_kind::copy, 0.01, 42, {.slow = 5ms});
    // A kernel fails; the next wait throws:
    node.faults().at(sim_call_kind::launch, 1,
                     {.status = sim_status::launch_failed, .later = true});
    // Every call for more than 1 GiB fails:
    node.faults().when([](sim_call_info const& c) { return c.bytes > 1_GiB; });
    // Another process allocated 4 GiB:
    node.take(0, 4_GiB);
    // [/faults]
    sim_resource memory;
    void* const  p = memory.allocate_sync(1_MiB);
    expects(memory.try_allocate_sync(1_MiB) == nullptr, "the second one is refused");
    memory.deallocate_sync(p, 1_MiB);
    sim_launch(stream, {.name = "fails"});
    bool failed = false;
    try {
        stream.synchronize();
    } catch (sim_error const&) { failed = true; }
    expects(failed, "the wait throws");
    node.give_back(0, 4_GiB);
}

void orders() {
    // [explore]
    auto const found = sim_explore({.node = {.preemptions = 2}}, [](sim_node& node) {
        shared     memory{pool{stream_ordered{sim_resource{}}}};
        auto const use = [memory] {
            sim_stream  stream;
            void* const p = memory.allocate(stream, 1_MiB);
            sim_launch(stream, {.writes = {{p, 1_MiB}}});
            memory.deallocate(stream, p, 1_MiB);
        };
        sim_thread one{sim_device{}, use}, two{sim_device{}, use};
        sim_thread::join_together(one, two);
        expects(node.reports().empty(), "no order is wrong");
    });
    expects(found.complete || !sim_ordered_threads, "each order within the bound was run");
    expects(found.failures == 0, "and none failed");
    // [/explore]
}

} // namespace

int main() {
    time_and_checks();
    faults();
    orders();
}
