// SPDX-License-Identifier: Apache-2.0
// The options of the resources around a pool: of frees in stream order, of an arena, of size
// classes, of virtual memory; and the marks of a resource that frees many blocks at once.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

using namespace vram;

namespace {

void fewer_events() {
    sim_node   node;
    sim_stream stream;
    // One event for every 8 frees of a stream; up to 32 MiB of freed blocks wait to be returned.
    stream_ordered_options const sparse{.frees_per_event = 8, .give_back_bytes = 32_MiB};
    stream_ordered               memory{sim_resource{}, sparse};
    void*                        blocks[16];
    for (void*& p : blocks) { p = memory.allocate(stream, 1_MiB); }
    for (void* p : blocks) { memory.deallocate(stream, p, 1_MiB); }
    expects(memory.usage().events == 2, "16 frees in a row record two events");
}

void one_shard_for_each_stream() {
    sim_node            node;
    arena_options const options{.max_size = 1_GiB, .count = 4, .key = arena_key::stream};
    arena               memory{pool{stream_ordered{sim_resource{}}}, options};
    sim_stream          one, two;
    void*               a = memory.allocate(one, 1_MiB);
    void*               b = memory.allocate(two, 1_MiB);
    memory.deallocate(one, a, 1_MiB);
    memory.deallocate(two, b, 1_MiB);
    expects(memory.try_allocate(one, 2_GiB) == nullptr, "all shards together have one limit");
}

void size_classes() {
    sim_node             node;
    sim_stream           stream;
    binned_options const options{.largest = 64_KiB, .max_size = 256_MiB};
    binned               memory{stream_ordered{sim_resource{}}, options};

    void* const small = memory.allocate(stream, 1000);   // a block of a size class
    void* const large = memory.allocate(stream, 10_MiB); // passed to the upstream
    expects(memory.rounded_size(1000, 256) < 2_KiB, "the size class is near the size");
    memory.deallocate(stream, small, 1000);
    memory.deallocate(stream, large, 10_MiB);
}

void virtual_memory_of_large_pages() {
    sim_node   node{{.capacity = 4_GiB}};
    sim_stream stream;
    // 16 GiB of addresses, pages of 16 MiB, and up to 64 MiB that stay mapped after frees.
    virtual_options const options{.reserve = 16_GiB, .handle_size = 16_MiB, .keep = 64_MiB};
    pool                  memory{sim_virtual_resource{options}};
    void* const           p = memory.allocate(stream, 100_MiB);
    expects(memory.usage().reserved % 16_MiB == 0, "whole pages");
    memory.deallocate(stream, p, 100_MiB);
    stream.synchronize();
}

void marks() {
    sim_node   node;
    sim_stream stream;
    // [marks]
    monotonic<stream_ordered<sim_resource>> step;
    (void)step.allocate(stream, 1_MiB); // for the whole step

    for (int layer = 0; layer < 10; ++layer) {
        monotonic_mark const here = step.mark();
        (void)step.allocate(stream, 8_MiB); // for this layer
        step.unwind(here, stream);          // frees all blocks since the mark
    }
    expects(step.usage().live == 1_MiB, "the block before the mark is live");
    expects(step.usage().peak_live == 9_MiB, "ten layers used the memory of one");
    step.reset(stream); // frees all blocks
    // [/marks]
}

/// Returns the peak of the live bytes during `work`, for any resource with peaks to restart.
template <resettable_peaks Memory, class Work>
std::size_t peak_during(Memory& memory, Work work) {
    peak_scope const scope{memory};
    work();
    return scope.live();
}

void peaks() {
    sim_node                           node;
    sim_stream                         stream;
    pool<stream_ordered<sim_resource>> memory;
    auto const                         use = [&](std::size_t bytes) {
        return peak_during(memory, [&] { buffer scratch{memory, stream, bytes}; });
    };
    expects(use(64_MiB) == 64_MiB, "the peak of the first step");
    expects(use(16_MiB) == 16_MiB, "and of the second, which is lower");
}

} // namespace

int main() {
    fewer_events();
    one_shard_for_each_stream();
    size_classes();
    virtual_memory_of_large_pages();
    marks();
    peaks();
}
