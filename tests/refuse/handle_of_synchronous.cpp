// SPDX-License-Identifier: Apache-2.0
// refuse-first: synchronous and takes no stream: write stream_ordered<cuda_resource>.* or call allocate_sync
// A type-erased handle allocates in stream order.
#include <vram/handle/resource_ref.hpp>
#include <vram/sim/sim.hpp>

void train(vram::resource_ref<vram::sim_platform>);
void run(vram::sim_resource& memory) { train(memory); }
