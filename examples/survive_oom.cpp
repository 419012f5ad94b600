// SPDX-License-Identifier: Apache-2.0
// After an out_of_memory the work is halved; finished pieces stay finished.

#include <vram/handle/buffer.hpp>
#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/pressure/split_on_oom.hpp>
#include <vram/probe/explain.hpp>
#include <vram/sim/sim.hpp>

#include <cstdio>

using namespace vram;

int main() {
    sim_stream  stream;
    limiting    memory{pool{stream_ordered{sim_resource{}}}, 100_MiB};
    std::size_t processed = 0;

    // [survive]
    split_on_oom split{{.granule = 1_MiB}};
    split(1_GiB, [&](std::size_t, std::size_t count) {
        buffer scratch{memory, stream, count}; // throws out_of_memory: the piece is halved
        processed += count;                    // ... the work
    });
    // [/survive]
    expects(processed == 1_GiB, "all of it was done");
    expects(split.size() == 64_MiB, "in the largest pieces that fit");

    // [explain]
    try {
        (void)memory.allocate(stream, 1_GiB);
    } catch (out_of_memory const& e) { std::puts(explain(e).c_str()); }
    // [/explain]
    expects(memory.used() == 0, "no byte of the budget was lost");
}
