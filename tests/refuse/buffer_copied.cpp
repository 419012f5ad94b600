// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(b\) .* platform::copy
// Two copies of a buffer would free the same block twice.
#include <vram/handle/buffer.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

void twice(vram::stream_ordered<vram::sim_resource>& memory, vram::sim_stream& stream) {
    vram::buffer first{memory, stream, 1024};
    auto         second = first;
}
