// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(b\) .* platform::copy
// Two copies of an array would free the same block twice.
#include <vram/handle/array.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

void twice(vram::stream_ordered<vram::sim_resource>& memory, vram::sim_stream& stream) {
    auto first  = vram::make_array<float>(memory, stream, 16);
    auto second = first;
}
