// SPDX-License-Identifier: Apache-2.0
// refuse-first: belongs to another platform than the memory: write sim_stream with sim_resource
// needs: cuda
// Device memory is used on streams of CUDA.
#include <vram/cuda/cuda.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

using memory_type = vram::pool<vram::stream_ordered<vram::cuda_resource>>;

void* ask(memory_type& memory, vram::sim_stream& stream) { return memory.allocate(stream, 64); }
