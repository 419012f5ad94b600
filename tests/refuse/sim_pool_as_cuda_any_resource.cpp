// SPDX-License-Identifier: Apache-2.0
// refuse-first: belongs to another platform than the handle: write resource_ref<sim_platform> for sim_resource
// needs: cuda
// Simulated memory in a handle of device memory.
#include <vram/cuda/cuda.hpp>
#include <vram/handle/any_resource.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

using memory_type = vram::pool<vram::stream_ordered<vram::sim_resource>>;

void train(vram::any_resource<vram::cuda_platform>);
void run(memory_type& memory) { train(std::move(memory)); }
