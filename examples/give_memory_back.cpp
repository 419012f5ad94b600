// SPDX-License-Identifier: Apache-2.0
// A pool keeps freed memory. If another library needs it, the
// pool returns idle chunks: at once those that are ready, or all after a wait. A simulated device
// of 1 GiB, so that every figure can be asserted.

#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <chrono>
#include <cstdio>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

std::size_t device_free() { return sim_device::current().memory().free; }

void tell(char const* when, auto const& memory) {
    memory_usage const now = memory.usage();
    std::printf("%-36s %8s live %8s reserved %8s free on the device\n", when,
                bytes{now.live}.text().c_str(), bytes{now.reserved}.text().c_str(),
                bytes{device_free()}.text().c_str());
}

/// A library that allocates from the device itself.
class other_library {
public:
    void start() { workspace_ = memory_.allocate_sync(bytes); } // throws out_of_memory
    void stop() { memory_.deallocate_sync(workspace_, bytes); }

private:
    static constexpr std::size_t bytes = 800_MiB;

    sim_resource memory_;
    void*        workspace_ = nullptr;
};

void plain(sim_stream const& stream) {
    pool<stream_ordered<sim_resource>> memory;
    void* const                        weights = memory.allocate(stream, 100_MiB);
    std::vector<void*>                 batches;
    for (int i = 0; i < 4; ++i) { batches.push_back(memory.allocate(stream, 150_MiB)); }
    sim_launch(stream, {.name = "train", .writes = {{batches[3], 150_MiB}}, .duration = 5ms});
    for (void* const p : batches) { memory.deallocate(stream, p, 150_MiB); }

    tell("a step has ended", memory);

    // [idle] Free, and still reserved: each batch had a chunk of its own, and all of these chunks
    // are idle now.
    expects(memory.usage().live < 110_MiB && memory.usage().reserved >= 700_MiB, "it is reserved");
    expects(memory.free_memory().releasable >= 600_MiB, "and could be returned");
    // [/idle]

    // [ready]
    // The kernel still runs, so nothing is ready, and the call does not wait.
    expects(memory.trim_no_wait() == 0, "a stream is busy with it");
    // [/ready]

    // [library]
    other_library library;
    try {
        library.start();
    } catch (out_of_memory const&) {
        memory.trim(); // waits for the kernel, and returns all idle chunks
        library.start();
    }
    // [/library]
    tell("another library has 800 MiB", memory);
    expects(memory.usage().reserved < 110_MiB, "only the weights are left");
    library.stop();

    // [keep]
    for (void*& p : batches) { p = memory.allocate(stream, 150_MiB); }
    for (void* const p : batches) { memory.deallocate(stream, p, 150_MiB); }
    std::size_t const back = memory.trim(300_MiB); // between steps: two batches may stay
    // [/keep]
    tell("after trim(300 MiB)", memory);
    expects(back >= 300_MiB, "two went");
    expects(memory.free_memory().bytes <= 300_MiB, "the rest is for the next step");
    expects(memory.trim_no_wait() >= 150_MiB, "no stream is busy with it: it goes without a wait");
    memory.deallocate(stream, weights, 100_MiB);
}

void in_place(sim_stream const& stream) {
    // [pages]
    pool<sim_virtual_resource> memory;
    void* const                before = memory.allocate(stream, 100_MiB);
    void* const                middle = memory.allocate(stream, 300_MiB);
    void* const                after  = memory.allocate(stream, 100_MiB);
    memory.deallocate(stream, middle, 300_MiB);
    expects(memory.free_memory().releasable == 0, "no chunk is idle");
    expects(memory.trim() >= 292_MiB, "the pages between go back, except partial ones");
    // [/pages]
    tell("in place, the pages between are back", memory);
    memory.deallocate(stream, after, 100_MiB);
    expects(memory.trim(10_MiB) >= 90_MiB, "and so does the end");
    memory.deallocate(stream, before, 100_MiB);
}

} // namespace

int main() {
    sim_node node{{.capacity = 1_GiB, .backed = false}};
    {
        sim_stream const  stream;
        std::size_t const all = device_free();
        plain(stream);
        expects(device_free() == all, "a pool that ends gives everything back");
        in_place(stream);
        expects(device_free() == all, "and so does this one");
    }
    expects(node.reports().empty(), "nothing went back before its time");
}
