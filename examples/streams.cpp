// SPDX-License-Identifier: Apache-2.0
// Stream order, a second stream, the end of a stream, default streams and graphs. The simulated
// device checks every access; the only report here is that of one deliberately missing event.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>

using namespace vram;
using namespace std::chrono_literals;

namespace {

using stack = pool<stream_ordered<sim_resource>>; // on a GPU: cuda_resource

void write(sim_stream_view stream, void* p, std::size_t bytes) {
    sim_launch(stream, {.name = "write", .writes = {{p, bytes}}, .duration = 1ms});
}
void read(sim_stream_view stream, void* p, std::size_t bytes) {
    sim_launch(stream, {.name = "read", .reads = {{p, bytes}}, .duration = 1ms});
}

void one_stream() {
    sim_node node;
    // [order]
    stack      memory;
    sim_stream stream;

    void* const first = memory.allocate(stream, 8_MiB);
    write(stream, first, 8_MiB);             // a kernel
    memory.deallocate(stream, first, 8_MiB); // now, although the kernel still runs
    void* const second = memory.allocate(stream, 8_MiB);
    write(stream, second, 8_MiB); // runs after the first kernel
    expects(second == first, "the stream gets its own memory back at once");
    expects(memory.usage().events == 0, "and no event was recorded for that");
    // [/order]
    memory.deallocate(stream, second, 8_MiB);
    expects(node.reports().empty(), "the order is correct");
}

void two_streams() {
    sim_node node;
    // [second]
    stack      memory;
    sim_stream compute, copies;

    void* const p = memory.allocate(compute, 8_MiB);
    write(compute, p, 8_MiB);

    sim_event written{sim_device::current()};
    written.record(compute);
    written.wait(copies); // copies waits for the kernel; the host does not
    read(copies, p, 8_MiB);
    memory.deallocate(copies, p, 8_MiB); // name the stream that used the block last
    // [/second]
    expects(node.reports().empty(), "an event orders the two streams");
}

void forgotten_event() {
    // [forgotten]
    sim_node   node{{.on_report = sim_on_report::collect}}; // stores reports, does not print them
    stack      memory;
    sim_stream compute, copies;

    void* const p = memory.allocate(compute, 8_MiB);
    write(compute, p, 8_MiB);
    read(copies, p, 8_MiB); // no event: a race
    expects(node.reports().size() == 1, "the simulated device reports it");
    // [/forgotten]
    sim_event done{sim_device::current()};
    done.record(copies);
    done.wait(compute);
    memory.deallocate(compute, p, 8_MiB);
}

void end_of_a_stream() {
    sim_node node;
    // [end]
    stack memory;
    {
        sim_stream  side;
        void* const p = memory.allocate(side, 8_MiB);
        write(side, p, 8_MiB);
        memory.deallocate(side, p, 8_MiB);
    } // the stream ends before the pool: correct, and nothing needs to be called
    sim_stream  next;
    void* const p = memory.allocate(next, 8_MiB); // waits for the kernel if the block is the same
    write(next, p, 8_MiB);
    // [/end]
    memory.deallocate(next, p, 8_MiB);
    expects(node.reports().empty(), "the pool waited for the kernel of the stream that ended");
}

void default_streams() {
    sim_node node;
    // [default]
    // Each thread's default stream has the same handle. Events are recorded with each free.
    stack memory{{.events = event_policy::eager}};

    auto const stream = sim_stream_view::per_thread(sim_device{0}); // CUDA: cudaStreamPerThread
    void*      p      = memory.allocate(stream, 8_MiB);
    write(stream, p, 8_MiB);
    memory.deallocate(stream, p, 8_MiB);
    // [/default]
    expects(node.reports().empty(), "the order is correct");
}

void graphs() {
    sim_node node;
    // [graph]
    stack      memory{{.graphs = true}}; // the pool queries if a stream is captured
    sim_stream stream;

    sim_graph::begin(stream); // on a GPU: cudaStreamBeginCapture
    void* const scratch = memory.allocate(stream, 8_MiB);
    write(stream, scratch, 8_MiB);
    memory.deallocate(stream, scratch, 8_MiB); // kept for the graph
    sim_graph graph = sim_graph::end(stream);

    void* const other = memory.allocate(stream, 8_MiB);
    expects(other != scratch, "memory of the graph is not given to other work");
    write(stream, other, 8_MiB);
    graph.launch(stream);
    graph.launch(stream);
    memory.deallocate(stream, other, 8_MiB);

    // There is no further launch: waits for the last one, and the memory is free again.
    memory.forget_captures();
    // [/graph]
    expects(node.reports().empty(), "the graph's memory was its own");
}

} // namespace

int main() {
    one_stream();
    two_streams();
    forgotten_event();
    end_of_a_stream();
    default_streams();
    graphs();
}
