// SPDX-License-Identifier: Apache-2.0
// Sizes and lifetimes of blocks, by powers of two.

#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

#include <cstdio>

using namespace vram;

int main() {
    sim_node const   node;
    sim_stream const stream;
    // [layer]
    auto memory = sim_resource{} | with::stream_ordered | with::pool | with::histograms;
    for (std::size_t n = 1; n != 100; ++n) {
        memory.deallocate(stream, memory.allocate(stream, n * 100), n * 100);
    }
    histograms const seen = memory.histograms();
    for (std::size_t i = 0; i != seen.sizes.counts.size(); ++i) {
        if (seen.sizes.counts[i] == 0) { continue; }
        std::printf("%8llu bytes or more: %llu\n",
                    static_cast<unsigned long long>(histogram::least(i)),
                    static_cast<unsigned long long>(seen.sizes.counts[i]));
    }
    // [/layer]
    expects(seen.sizes.total() == 99 && seen.lifetimes.total() == 99, "each block");
    expects(seen.sizes.counts[histogram::entry_of(4096)] == 41, "4100 to 8100");
}
