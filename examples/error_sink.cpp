// SPDX-License-Identifier: Apache-2.0
// An error sink of the program receives the errors that cannot be thrown. Each invalid free is
// reported and has no other effect.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>

using namespace vram;

namespace {

// [sink]
int mistakes = 0;

void my_sink(error const& e) noexcept { // any thread may call it; it must not throw
    ++mistakes;
    std::fprintf(stderr, "%s\n", error_text{e}.c_str()); // or a log of yours, or abort()
}
// [/sink]

void each_mistake(pool<stream_ordered<sim_resource>>& memory, sim_stream_view stream) {
    // [mistakes]
    auto* const p = static_cast<std::byte*>(memory.allocate(stream, 1_MiB));
    int         on_the_stack{};

    memory.deallocate(stream, p, 2_MiB);          // wrong size
    memory.deallocate(stream, p + 4096, 1_MiB);   // pointer into a block
    memory.deallocate(stream, &on_the_stack, 64); // foreign pointer
    memory.deallocate(stream, p, 1_MiB);          // correct
    memory.deallocate(stream, p, 1_MiB);          // double free
    expects(mistakes == 4, "four messages, and the block is free");
    // [/mistakes]
}

} // namespace

int main() {
    sim_node node{{.on_report = sim_on_report::collect}};
    // [install]
    error_sink const before = set_error_sink(my_sink);
    // [/install]
    {
        pool<stream_ordered<sim_resource>> memory;
        sim_stream                         stream;
        each_mistake(memory, stream);
        stream.synchronize();
    }
    set_error_sink(before);
}
