// SPDX-License-Identifier: Apache-2.0
// One pool for several functions, classes and threads: by reference, by handle, as the current
// resource of a device.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <thread>
#include <utility>
#include <vector>

using namespace vram;

namespace {

using stack = pool<stream_ordered<sim_resource>>; // on a GPU: cuda_resource

// [function]
using memory_ref = resource_ref<sim_platform, device_accessible>; // on a GPU: cuda_platform

void solve(memory_ref memory, sim_stream_view stream) {
    buffer scratch{memory, stream, 1_MiB}; // memory of the caller's resource
}
// [/function]

// [class]
class model {
public:
    explicit model(any_resource<sim_platform, device_accessible> memory)
        : memory_{std::move(memory)} {}
    void step(sim_stream_view stream) { buffer activations{memory_, stream, 4_MiB}; }

private:
    any_resource<sim_platform, device_accessible> memory_; // keeps the pool alive
};
// [/class]

void threads() {
    // [threads]
    shared memory{stack{}}; // a handle; a copy is another handle of the same pool

    std::vector<std::thread> workers;
    for (int i = 0; i < 4; ++i) {
        workers.emplace_back([memory] {
            sim_stream stream; // each thread uses a stream of its own
            for (int step = 0; step < 100; ++step) {
                void* const p = memory.allocate(stream, 1_MiB);
                memory.deallocate(stream, p, 1_MiB);
            }
        });
    }
    for (std::thread& each : workers) { each.join(); }
    expects(memory.usage().live == 0, "every block is free again");
    // [/threads]
}

void many_threads() {
    // [arena]
    arena<stack> memory; // a shard for each thread, over one pool

    std::vector<std::thread> workers;
    for (int i = 0; i < 4; ++i) {
        workers.emplace_back([&memory] { // by reference: memory ends after the threads
            sim_stream stream;
            for (int step = 0; step < 100; ++step) {
                void* const p = memory.allocate(stream, 1_MiB);
                memory.deallocate(stream, p, 1_MiB);
            }
        });
    }
    for (std::thread& each : workers) { each.join(); }
    // [/arena]
    expects(memory.usage().live == 0, "every block is free again");
}

void handles() {
    sim_stream stream;
    // [handles]
    stack memory;
    solve(memory, stream); // by reference: `memory` outlives the call

    shared kept{stack{}};
    model  first{kept}, second{kept}; // both hold the pool
    solve(kept, stream);
    first.step(stream);
    // [/handles]
    expects(kept.holders() == 3, "two models and the handle here");
}

void current_resource() {
    sim_stream stream;
    // [current]
    shared memory{stack{}};
    {
        current_resource_guard<sim_platform> const scope{memory};

        auto   here = current<sim_platform>::get(); // in any function, without a parameter
        buffer scratch{here, stream, 1_MiB};
        expects(memory.usage().live != 0, "it comes from the pool");
    } // the resource that was current before is current again
    // [/current]
    expects(memory.usage().live == 0, "and went back to it");
}

} // namespace

int main() {
    sim_node node;
    threads();
    many_threads();
    handles();
    current_resource();
    current<sim_platform>::forget(sim_device{0}); // before the simulated device ends
    expects(node.reports().empty(), "the device saw no mistake");
}
