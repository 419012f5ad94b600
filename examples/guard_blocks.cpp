// SPDX-License-Identifier: Apache-2.0
// A layer that finds writes outside of blocks, and to freed blocks.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstddef>
#include <cstdio>
#include <cstring>

using namespace vram;

namespace {

unsigned reports = 0;

/// Prints an error without its addresses, which differ from run to run.
void print_kind(error const& e) noexcept {
    ++reports;
    auto const offset =
        static_cast<std::byte const*>(e.pointer) - static_cast<std::byte const*>(e.block);
    std::printf("%s: offset %td of a block of %zu bytes for \"%s\"\n", name(e.kind), offset,
                e.block_bytes, e.tag);
}

/// Stands for a kernel that writes `n` bytes.
void kernel(sim_stream const& stream, void* p, std::size_t n) {
    sim_platform::fill(stream, p, std::byte{1}, n);
}

} // namespace

int main() {
    set_error_sink(print_kind);
    sim_node const   node;
    sim_stream const stream;
    {
        // [layer]
        auto memory = sim_resource{} | with::stream_ordered | with::pool |
                      with::guarded({.quarantine = 1_MiB});
        tagged const scope{"weights"};
        void* const  p = memory.allocate(stream, 1000);
        kernel(stream, p, 1001); // one byte too many
        memory.deallocate(stream, p, 1000);
        kernel(stream, p, 4); // the block is freed
        stream.synchronize();
        memory.trim(); // empties the quarantine; the end of `memory` does the same
        // [/layer]
        memory.check_blocks();
    }
    expects(reports == 2, "both writes");
}
