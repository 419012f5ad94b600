// SPDX-License-Identifier: Apache-2.0
// refuse-first: synchronous and takes no stream: write stream_ordered<cuda_resource>.* or call allocate_sync
// A free on a stream needs stream order as well.
#include <vram/layer/fallback.hpp>
#include <vram/sim/sim.hpp>

void end(vram::fallback<vram::sim_resource, vram::sim_managed_resource>& memory,
         vram::sim_stream& stream, void* p) {
    memory.deallocate(stream, p, 64);
}
