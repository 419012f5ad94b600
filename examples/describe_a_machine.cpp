// SPDX-License-Identifier: Apache-2.0
// A simulated machine with the speeds of a real one: links, engines and default streams, and the
// figures and the trace of a run.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <cstdio>

using namespace vram;
using namespace std::chrono_literals;

namespace {

/// Two devices with 80 GiB each, a fast link from 0 to 1, and no link back.
sim_options two_devices() {
    sim_options machine;
    machine.devices        = 2;
    machine.capacity       = 80_GiB;
    machine.backed         = false; // no contents: 80 GiB need no host memory
    machine.host_bandwidth = 55_GB;
    machine.compute_slots  = 2; // kernels of two streams run at the same time
    machine.links          = {sim_link{.from = 0, .to = 1, .bandwidth = 450_GB}};
    machine.default_stream = sim_default_stream::per_thread;
    machine.trace          = true;
    return machine;
}

void overlap() {
    constexpr std::size_t bytes = 55_GB / 100; // 10 ms at 55 GB/s
    sim_node              node{two_devices()};
    sim_resource          memory;
    sim_pinned_resource   pinned;
    void* const           host   = pinned.allocate_sync(bytes);
    void* const           device = memory.allocate_sync(bytes);

    // `blocking`: ordered with the legacy default stream, as plain cudaStreamCreate makes it.
    sim_stream copies{sim_device{0}, sim_stream_options{.blocking = true}}, work;
    sim_copy(copies, device, host, bytes);
    sim_kernel const step{.name = "step", .duration = 4ms};
    sim_launch(work, step);
    sim_launch(work, step);
    copies.synchronize();
    work.synchronize();

    sim_figures const figures = node.figures(0);
    expects(figures.busy(sim_engine::compute) == 8ms, "two kernels of 4 ms");
    expects(figures.overlap() == 8ms, "all of it during the copy");
    unsigned const to_host = sim_set(sim_engine::to_host, sim_engine::peer);
    expects(figures.busy(to_host) == 0ns, "no copy from the device");
    expects(figures.busy(sim_copy_engines) >= sim_transfer_time(bytes, 55_GB), "bytes over speed");
    expects(figures.work.size() == sim_engines, "one number for each engine");
    expects(figures.bytes_to_device == bytes, "one copy to the device");

    for (sim_trace const& each : node.trace()) { // the operations, for a timeline
        auto const us = [](sim_time t) { return static_cast<long long>(t.count() / 1000); };
        std::printf("%-5s %6lld to %6lld us\n", each.name, us(each.start), us(each.end));
        expects(each.enqueued <= each.start && each.start < each.end, "in this order");
    }
    memory.deallocate_sync(device, bytes);
    pinned.deallocate_sync(host, bytes);
}

void peers() {
    constexpr std::size_t bytes = 450_GB / 1000; // 1 ms at 450 GB/s
    sim_node              node{two_devices()};
    sim_resource          first{sim_device{0}}, second{sim_device{1}};
    void* const           from = first.allocate_sync(bytes);
    void* const           to   = second.allocate_sync(bytes);
    sim_stream            stream;
    auto const            start = node.now();
    sim_copy(stream, to, from, bytes);
    stream.synchronize();
    expects(node.now() - start < 2ms, "1 ms at 450 GB/s, and the latency");
    bool refused = false;
    try {
        sim_copy(stream, from, to, bytes);
    } catch (sim_error const& e) { refused = e.status() == sim_status::peer_not_reachable; }
    expects(refused, "there is no link back");
    first.deallocate_sync(from, bytes);
    second.deallocate_sync(to, bytes);
}

void memory_of_the_driver() {
    sim_node   node;
    sim_stream stream;
    // As a cudaMemPool_t that keeps 1 GiB and never has more than 2 GiB.
    sim_async_options const limits{.release_threshold = 1_GiB, .maximum_size = 2_GiB};
    sim_async_resource      memory{sim_device{0}, limits};
    void* const             p = memory.allocate(stream, 512_MiB);
    expects(memory.try_allocate(stream, 2_GiB) == nullptr, "above the maximum");
    memory.deallocate(stream, p, 512_MiB);
    stream.synchronize();
    expects(memory.usage().reserved == 512_MiB, "kept, because of the threshold");

    sim_managed_resource managed; // as cudaMallocManaged: the host and the devices access it
    auto* const          shared = static_cast<int*>(managed.allocate_sync(64 * sizeof(int)));
    sim_launch(stream, {.writes = {{shared, 64 * sizeof(int)}}}, [=] { sim_view(shared)[0] = 42; });
    stream.synchronize();
    expects(sim_view(shared)[0] == 42, "the host reads the result of the kernel");
    int told = 0; // a host function in stream order, as cudaLaunchHostFunc calls one
    sim_call_host(stream, [](void* to) { *static_cast<int*>(to) = 1; }, &told);
    stream.synchronize();
    expects(told == 1, "the function was called");
    managed.deallocate_sync(shared, 64 * sizeof(int));
}

void costs_of_calls() {
    // [profile]
    sim_options machine = sim_options::h200(); // the costs of calls, measured on a GPU
    machine.backed      = false;               // no contents
    sim_costs& costs    = machine.costs;
    costs.launch        = 2us; // another host launches kernels faster
    costs.pin           = sim_cost{{0, 20us}, {1_GiB, 50ms}};
    sim_node     node{machine};
    sim_resource memory;
    auto const   start = node.now();
    void* const  p     = memory.allocate_sync(32_MiB); // 49.2 us, as cudaMalloc
    expects(node.now() - start == machine.costs.allocate.of(32_MiB), "the call took its time");
    memory.deallocate_sync(p, 32_MiB);
    // [/profile]
}

void captures() {
    sim_node            node;
    sim_stream          stream;
    sim_pinned_resource memory;
    void* const         p      = memory.allocate_sync(1_KiB);
    int                 word[] = {1, 2, 3};
    // As cudaStreamCaptureModeThreadLocal: this thread may make no unsafe call, others may.
    sim_graph::begin(stream, sim_capture_mode::thread_local_only);
    sim_launch(stream, {.name = "step", .reads = {{p, 1_KiB}}});
    bool refused = false;
    try {
        sim_copy_sync(p, word, sizeof word); // cudaMemcpy, which waits
    } catch (sim_error const&) { refused = true; }
    expects(refused, "it breaks the capture, as in CUDA");
    try {
        (void)sim_graph::end(stream);
    } catch (sim_error const& e) { expects(e.status() == sim_status::capture_invalid, "broken"); }
    sim_copy_sync(p, word, sizeof word);
    memory.deallocate_sync(p, 1_KiB);
}

} // namespace

int main() {
    overlap();
    peers();
    memory_of_the_driver();
    costs_of_calls();
    captures();
}
