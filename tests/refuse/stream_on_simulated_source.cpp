// SPDX-License-Identifier: Apache-2.0
// refuse-first: synchronous and takes no stream: write stream_ordered<cuda_resource>.* or call allocate_sync
// The simulated source is synchronous as well.
#include <vram/sim/sim.hpp>

void* ask(vram::sim_resource& memory, vram::sim_stream& stream) {
    return memory.allocate(stream, 64);
}
