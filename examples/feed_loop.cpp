// SPDX-License-Identifier: Apache-2.0
// The next batch is copied while the present one is used. Times are virtual, so they can be
// asserted.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <span>

using namespace vram;
using namespace std::chrono_literals;

int main() {
    sim_node    node;
    sim_stream  stream;
    std::size_t trained = 0;

    // [fill]
    auto fill = [&](std::span<std::byte> to, std::size_t index) -> std::size_t {
        if (index == 10) { return 0; } // the end
        std::memset(to.data(), static_cast<int>(index), to.size());
        node.work(1ms); // the duration of the read on the simulated host
        return to.size();
    };
    // [/fill]

    auto const start = node.now();
    // [loop]
    for (auto& batch : loader{fill, stream, {.batch_bytes = 16_MiB, .depth = 2}}) {
        auto const data = batch.span<float>(); // in device memory, in stream order
        sim_launch(stream,
                   {.name = "train", .reads = {{data.data(), data.size_bytes()}}, .duration = 1ms});
        ++trained;
    }
    // [/loop]
    stream.synchronize();

    auto const took = std::chrono::duration<double, std::milli>{node.now() - start}.count();
    std::printf("%zu batches in %.2f ms; one after the other: %.2f ms\n", trained, took,
                10 * (1 + 1 + 16 * 1.048576 / 25));
    expects(trained == 10, "every batch arrived");

    // [memory]
    pool<limiting<stream_ordered<sim_resource>>> memory{
        limiting{stream_ordered{sim_resource{}}, 256_MiB}};
    pool<sim_pinned_resource> pinned; // on a GPU: cuda_resource, pinned_resource

    loader inside{
        fill, stream, resource_ref{memory}, resource_ref{pinned}, {.batch_bytes = 16_MiB}};
    expects(memory.usage().live == 2 * 16_MiB, "its device blocks come from the pool");
    // [/memory]
    for (auto& batch : inside) { trained += batch.size() / 16_MiB; }
    expects(trained == 20, "every batch arrived");
    expects(took < 14 || !sim_ordered_threads, "reading, copying and training overlap");
    expects(node.reports().empty(), "and nothing was used before it was there");
}
