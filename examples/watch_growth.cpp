// SPDX-License-Identifier: Apache-2.0
// A loop in which a cache grows at each step: the growth is found with its tag and line. A second
// watch reads the used bytes of the device, and finds the memory of another library.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>
#include <vector>

using namespace vram;

int main() {
    sim_node                                     node{{.capacity = 8_GiB, .backed = false}};
    tracking<pool<stream_ordered<sim_resource>>> memory; // on a GPU: cuda_resource
    sim_stream                                   stream;
    std::vector<void*>                           cache, foreign;

    auto const train_step = [&](int step) {
        buffer const   activations{memory, stream, 64_MiB};
        tagged const   scope{"cache"};
        constexpr auto first_batch_with_new_keys = 12;
        if (step > first_batch_with_new_keys) { cache.push_back(memory.allocate(stream, 3_MiB)); }
    };

    // [watch]
    growth_watch watch{memory};
    for (int step = 1; step <= 100; ++step) {
        train_step(step);
        watch.step();
    }
    if (memory_growth const found = watch.growth()) { std::puts(found.text().c_str()); }
    // [/watch]
    expects(watch.growth().since == 12, "the growth began there");

    // [device]
    growth_watch device{memory, growth_options{.of = growth_of::device, .steps = 20}};
    for (int step = 1; step <= 40; ++step) {
        foreign.push_back(sim_resource{}.allocate_sync(2_MiB)); // a library with its own memory
        device.step();
    }
    std::puts(device.growth().text().c_str());
    // [/device]
    expects(device.growth().live == 0, "the pool does not grow");

    for (void* p : cache) { memory.deallocate(stream, p, 3_MiB); }
    for (void* p : foreign) { sim_resource{}.deallocate_sync(p, 2_MiB); }
}
