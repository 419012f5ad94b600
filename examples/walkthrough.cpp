// SPDX-License-Identifier: Apache-2.0
// The functions of a resource, the check of a scope, and all pools, as the documentation shows them.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

using namespace vram;

namespace {

void train_step(auto& memory, sim_stream_view stream) { buffer scratch{memory, stream, 1_MiB}; }

} // namespace

int main() {
    sim_node                           node;
    sim_stream                         stream;
    pool<stream_ordered<sim_resource>> memory;
    constexpr std::size_t              bytes = 1_MiB;
    // [pairs]
    void* const p = memory.allocate(stream, bytes); // for later work of the stream
    memory.deallocate(stream, p, bytes);            // work that is queued may still use it

    void* const q = memory.allocate_sync(bytes); // for the host and every stream
    memory.deallocate_sync(q, bytes);            // no stream uses it any more
    // [/pairs]

    // [leak]
    {
        leak_check const watch{memory};
        train_step(memory, stream);
    } // prints the bytes and this line if a block is still live
    // [/leak]
    expects(memory.usage().live == 0, "nothing leaks");

    // [pools]
    using plain = stream_ordered<sim_resource>; // on a GPU: cuda_resource, virtual_resource

    pool<plain>                usual;
    pool<sim_virtual_resource> in_place;
    pool<sim_virtual_resource> tight{pool_options{.slack = 0.07}};
    arena<pool<plain>>         threads;       // a shard for each thread
    slab<plain>                blocks{1_MiB}; // blocks of up to 1 MiB, all of one size
    binned<plain>              sizes;         // a slab for each size
    monotonic<plain>           step;          // all blocks are freed together

    auto const use = [&](auto&... each) {
        (each.deallocate(stream, each.allocate(stream, 1_MiB), 1_MiB), ...);
    };
    use(usual, in_place, tight, threads, blocks, sizes, step); // one interface
    // [/pools]
}
