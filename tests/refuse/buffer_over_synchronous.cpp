// SPDX-License-Identifier: Apache-2.0
// refuse-first: write stream_ordered<cuda_resource>
// A buffer frees its memory in stream order.
#include <vram/handle/buffer.hpp>
#include <vram/sim/sim.hpp>

void fill(vram::sim_resource memory, vram::sim_stream& stream) {
    vram::buffer scratch{memory, stream, 1024};
}
