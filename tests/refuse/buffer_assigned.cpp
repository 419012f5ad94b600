// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(b\) .* platform::copy
// An assignment between two buffers must move one of them.
#include <vram/handle/buffer.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/sim/sim.hpp>

using memory_type = vram::stream_ordered<vram::sim_resource>;

void assign(vram::buffer<memory_type&>& to, vram::buffer<memory_type&>& from) { to = from; }
