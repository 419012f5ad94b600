// SPDX-License-Identifier: Apache-2.0
// The order of layers: three stacks around a pool, and a limit above and below one.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <chrono>
#include <type_traits>
#include <vector>

using namespace vram;
using namespace std::chrono_literals;

namespace {

void order_of_layers() {
    sim_node   node{{.capacity = 1_GiB}};
    sim_stream stream;
    // [orders]
    pool<sim_resource>                 plain;   // sim_resource: on a GPU, cuda_resource
    pool<stream_ordered<sim_resource>> usual;   // the usual stack
    stream_ordered<pool<sim_resource>> delayed; // frees reach the pool when the stream is done

    for (int step = 0; step < 3; ++step) {
        auto const use = [&](auto& memory) {
            void* const p = memory.allocate(stream, 16_MiB);
            sim_launch(stream, {.writes = {{p, 16_MiB}}, .duration = 10ms});
            memory.deallocate(stream, p, 16_MiB); // the kernel still runs
        };
        use(plain), use(usual), use(delayed);
    }
    // A pool can reuse a stream's own memory at once; a pool under stream_ordered cannot.
    expects(plain.usage().reserved == usual.usage().reserved, "one block, three times");
    expects(delayed.usage().reserved > usual.usage().reserved, "a block for each kernel");
    // [/orders]
    expects(node.reports().empty(), "every order is correct");
}

void limits() {
    sim_node   node{{.capacity = 1_GiB}};
    sim_stream stream;
    // [limits]
    pool<limiting<stream_ordered<sim_resource>>> below{
        limiting{stream_ordered<sim_resource>{}, 256_MiB}};
    limiting<pool<stream_ordered<sim_resource>>> above{pool<stream_ordered<sim_resource>>{},
                                                       256_MiB};

    std::vector<void*> blocks;
    for (std::size_t i = 0; i < 24; ++i) { blocks.push_back(above.allocate(stream, 10_MiB)); }
    for (std::size_t i = 0; i < 24; i += 2) { above.deallocate(stream, blocks[i], 10_MiB); }
    for (std::size_t i = 0; i < 24; i += 4) { blocks[i] = above.allocate(stream, 20_MiB); }
    expects(above.usage().live <= 256_MiB, "the callers hold no more than the limit,");
    expects(above.usage().reserved > 256_MiB, "the pool does: no hole of 10 MiB holds 20 MiB");

    void* const most = below.allocate(stream, 200_MiB);
    expects(below.try_allocate(stream, 100_MiB) == nullptr, "the device limit refuses");
    expects(below.usage().reserved <= 256_MiB, "and holds for all that the pool reserved");
    // [/limits]
    below.deallocate(stream, most, 200_MiB);
    for (std::size_t i = 0; i < 24; ++i) {
        if (i % 2 != 0) { above.deallocate(stream, blocks[i], 10_MiB); }
        if (i % 4 == 0) { above.deallocate(stream, blocks[i], 20_MiB); }
    }
}

void options_and_parts() {
    sim_node   node{{.capacity = 1_GiB}};
    sim_stream stream;
    // [options]
    statistics counted{pool{stream_ordered{sim_resource{}}, {.max_size = 512_MiB, .graphs = true}}};
    arena      threads{pool{stream_ordered{sim_resource{}}}, {.max_size = 256_MiB}};
    // [/options]
    expects(counted.try_allocate(stream, 600_MiB) == nullptr, "the option of the pool under it");
    expects(threads.try_allocate(stream, 300_MiB) == nullptr, "the option of the arena");
    // [parts]
    shared   memory{pool{stream_ordered{sim_resource{}}}};
    limiting cache{memory, 64_MiB};     // both allocate from one pool:
    limiting training{memory, 512_MiB}; // each has a limit of its own

    buffer entry{cache, stream, 60_MiB};
    expects(cache.try_allocate(stream, 8_MiB) == nullptr, "the cache has reached its limit,");
    buffer weights{training, stream, 100_MiB}; // the rest of the program has not
    // [/parts]
    expects(cache.used() == 60_MiB && training.used() == 100_MiB, "each counts its own bytes");
}

void reading_order() {
    // [words]
    auto memory = sim_resource{}          // device memory,
                  | with::stream_ordered  // freed in stream order,
                  | with::limiting(2_GiB) // at most 2 GiB of it,
                  | with::pool()          // divided into blocks,
                  | with::statistics;     // counted
    static_assert(
        std::is_same_v<decltype(memory), statistics<pool<limiting<stream_ordered<sim_resource>>>>>);
    // [/words]
    sim_stream  stream;
    void* const p = memory.allocate(stream, 1_GiB);
    expects(memory.now().bytes.value == std::ptrdiff_t{1_GiB}, "statistics counts");
    memory.deallocate(stream, p, 1_GiB);
}

} // namespace

int main() {
    order_of_layers();
    limits();
    options_and_parts();
    sim_node node{{.backed = false}};
    reading_order();
}
