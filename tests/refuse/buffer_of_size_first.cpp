// SPDX-License-Identifier: Apache-2.0
// refuse-first: buffer\{memory, stream, "?\s*"?bytes\}
// Other libraries take the bytes first and the resource last.
#include <vram/handle/buffer.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

void fill(vram::stream_ordered<vram::sim_resource>& memory, vram::sim_stream& stream) {
    vram::buffer scratch{1024, stream, memory};
}
