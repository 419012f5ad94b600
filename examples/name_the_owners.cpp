// SPDX-License-Identifier: Apache-2.0
// Which code holds the memory, what held it at the peak, and which line leaks: `tracking` and tags.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>

using namespace vram;

namespace {

template <class Memory>
void train_step(Memory& memory, sim_stream_view stream, bool is_odd) {
    // [tags]
    tagged const step{"train"};
    buffer       activations{memory, stream, 96_MiB};
    {
        tagged const scope{"optimizer"}; // "train/optimizer"
        void* const  scratch = memory.allocate(stream, 8_MiB);
        if (is_odd) { return; } // the planted leak
        memory.deallocate(stream, scratch, 8_MiB);
    }
    // [/tags]
}

} // namespace

int main() {
    sim_node   node;
    sim_stream stream;
    set_error_sink([](error const& e) noexcept {
        std::printf("%s of %zu bytes for \"%s\", allocated at line %u\n", name(e.kind), e.bytes,
                    e.tag, e.allocated_at.line());
    });
    error_count const errors;
    // [layer]
    auto memory = sim_resource{} | with::stream_ordered | with::limiting(256_MiB) | with::pool |
                  with::tracking; // on a GPU: cuda_resource
    // [/layer]
    void* weights = nullptr;
    {
        tagged const scope{"model"};
        weights = memory.allocate(stream, 64_MiB);
    }
    for (int i = 0; i < 4; ++i) { train_step(memory, stream, i % 2 == 1); }
    // [text]
    std::fputs(memory.text().c_str(), stdout);
    // [/text]
    // [blocks]
    for (tracked_block const& each : memory.blocks(tracked_order::largest_first)) {
        std::printf("%s for \"%s\"\n", bytes{each.bytes}.text().c_str(), each.owner.path());
    }
    // [/blocks]
    try {
        (void)memory.allocate(stream, 1_GiB);
    } catch (out_of_memory const& e) {
        expects(e.numbers().holders[0].bytes == 64_MiB, "the model holds most");
        expects(e.numbers().holders[1].blocks == 2, "the optimizer holds two blocks");
    }
    memory.deallocate(stream, weights, 64_MiB);
    memory.report_leaks(); // the end of the layer does this too
    expects(errors.count() == 1, "one line leaks");
    for (tracked_block const& each : memory.blocks()) {
        memory.deallocate(stream, each.memory, each.bytes);
    }
    // [frames]
    using stack  = pool<stream_ordered<sim_resource>>; // the type in the program until now
    using traced = tracking<stack>;                    // the type that replaces it
    traced       watched{stack{}, {.frames = 8}};      // or `traced watched;` without options
    buffer const cache{watched, stream, 2_MiB};
    for (tracked_block const& each : watched.blocks()) {
        std::printf("%s at line %u, called from\n", bytes{each.bytes}.text().c_str(),
                    each.at.line());
        for (std::size_t i = 0; i != each.stack.size(); ++i) {
            std::printf("  %s\n", frame_text{each.stack[i]}.c_str());
        }
    }
    // [/frames]
}
