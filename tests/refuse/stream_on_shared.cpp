// SPDX-License-Identifier: Apache-2.0
// refuse-first: synchronous and takes no stream: write stream_ordered<cuda_resource>.* or call allocate_sync
// A handle of a synchronous resource is synchronous.
#include <vram/handle/shared.hpp>
#include <vram/sim/sim.hpp>

void* ask(vram::shared<vram::sim_resource>& memory, vram::sim_stream& stream) {
    return memory.allocate(stream, 64);
}
