// SPDX-License-Identifier: Apache-2.0
// Pinned memory for the host's own work: allocate_sync, standard containers, and a mistake that
// the simulated device reports.

#include <vram/interop/pmr.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <memory_resource>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

void containers() {
    sim_node   node;
    sim_stream stream;
    // [vector]
    shared pinned{pool{sim_pinned_resource{}}}; // on a GPU: pinned_resource

    using samples = std::vector<float, std_allocator<float, decltype(pinned)>>;
    samples host(1000, 1.0F, pinned); // pinned: copies run at full speed, beside the kernels

    pool<stream_ordered<sim_resource>> memory;
    auto                               device = make_array<float>(memory, stream, host.size());
    device.copy_from(host); // returns at once
    stream.synchronize();   // before host is changed, or ends
    // [/vector]

    // [pmr]
    pmr                      standard{pinned};
    std::pmr::vector<double> results(100, &standard);
    // [/pmr]
    expects(node.reports().empty(), "the order is correct");
}

void host_and_stream() {
    sim_node   node{{.on_report = sim_on_report::collect}};
    sim_stream stream;
    // [sync]
    pool<sim_pinned_resource> pinned;

    auto* const staged = static_cast<float*>(pinned.allocate(stream, 1_MiB));
    sim_launch(stream, {.reads = {{staged, 1_MiB}}, .duration = 10ms}); // reads it for 10 ms
    pinned.deallocate(stream, staged, 1_MiB); // in stream order: for later work of the stream

    auto* const early = static_cast<float*>(pinned.allocate(stream, 1_MiB)); // the same block
    expects(early == staged, "the stream gets its own memory back at once");
    sim_touch({early, 1_MiB}, sim_access::write); // the host writes: the kernel still reads
    expects(node.reports().size() == 1, "the simulated device reports a race");
    pinned.deallocate(stream, early, 1_MiB);

    auto* const now = static_cast<float*>(pinned.allocate_sync(1_MiB)); // no stream uses it
    sim_touch({now, 1_MiB}, sim_access::write);
    expects(node.reports().size() == 1, "and reports nothing more");
    pinned.deallocate_sync(now, 1_MiB); // the host is done with it, and no stream uses it
    // [/sync]
}

} // namespace

int main() {
    containers();
    host_and_stream();
}
