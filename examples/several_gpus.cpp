// SPDX-License-Identifier: Apache-2.0
// A pool for each device, and a thread for each device with a loader of its own.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

using namespace vram;

int main() {
    sim_node node{{.devices = 2}};
    // [pools]
    using stack = pool<stream_ordered<sim_resource>>; // on a GPU: cuda_resource

    std::vector<stack> memory; // one pool for each device
    for (int device : {0, 1}) {
        memory.emplace_back(stream_ordered{sim_resource{sim_device{device}}});
    }
    sim_stream  stream{sim_device{1}};                  // on a GPU: cuda_stream{cuda_device{1}}
    void* const p = memory[1].allocate(stream, 64_MiB); // on device 1, with any current device
    memory[1].deallocate(stream, p, 64_MiB);
    // [/pools]

    // [train]
    std::atomic<std::size_t> trained = 0;
    auto const               fill    = [](std::span<float> to, std::size_t index) -> std::size_t {
        std::ranges::fill(to, static_cast<float>(index));
        return index < 100 ? to.size() : 0;
    };
    auto const train = [&](int device) {
        sim_device_guard const on{sim_device{device}}; // for resources that are constructed here
        sim_stream             own;
        auto const             shard  = static_cast<std::size_t>(device);
        auto                   source = typed<float>(fill);
        for (auto& batch :
             loader{source, own, {.batch_bytes = 1_MiB, .shard = shard, .shards = 2}}) {
            buffer activations{memory[shard], own, 8_MiB};
            trained += batch.size() / 1_MiB;
        }
    };
    std::thread zero{train, 0}, one{train, 1};
    zero.join(), one.join();
    expects(trained == 100, "each batch was used on one device");
    // [/train]
    expects(node.reports().empty(), "the devices saw no mistake");
}
