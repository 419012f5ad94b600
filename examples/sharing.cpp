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

// [members]
class borrower { // its arrays refer to the pool, so it is neither copied nor moved
public:
    explicit borrower(sim_stream_view stream)
        : weights_{memory_, stream, 1000}, scratch_{memory_, stream, 1_MiB} {}
    borrower(borrower&&) = delete;

private:
    stack                memory_; // before its users: members end in reverse order
    array<float, stack&> weights_;
    buffer<stack&>       scratch_;
};
// [/members]

// [owners]
using device_memory = any_resource<sim_platform, device_accessible>; // on a GPU: cuda_platform
using device_buffer = buffer<device_memory>;
template <class T>
using device_array = array<T, device_memory>;

class tensor { // may be moved; each member holds the pool, so their order does not matter
public:
    tensor(device_memory const& memory, sim_stream_view stream, std::size_t n)
        : values_{memory, stream, n}, scratch_{memory, stream, 1_MiB} {}
    [[nodiscard]] std::size_t size() const { return values_.size(); }

private:
    device_array<float> values_;
    device_buffer       scratch_;
};
// [/owners]

struct view_of_a_pool { // the pool outlives it
    buffer<resource_ref<sim_platform, device_accessible>> scratch;
};

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

void members() {
    sim_stream     stream;
    borrower const both{stream};
    // [tensors]
    shared              memory{stack{}};
    std::vector<tensor> tensors;
    for (std::size_t n : {1000, 2000}) { tensors.emplace_back(memory, stream, n); }
    // [/tensors]
    view_of_a_pool const third{buffer{memory_ref{memory}, stream, 1_MiB}};
    expects(tensors[1].size() == 2000 && third.scratch.size() == 1_MiB, "each has its memory");
    expects(memory.usage().live >= 3_MiB + 3000 * sizeof(float), "and all of it from the pool");
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
    members();
    current_resource();
    current<sim_platform>::forget(sim_device{0}); // before the simulated device ends
    expects(node.reports().empty(), "the device saw no mistake");
}
