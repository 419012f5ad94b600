// SPDX-License-Identifier: Apache-2.0
// refuse-first: belongs to another platform than the memory: .* cudaStream_t with cuda_resource
// needs: cuda
// Simulated memory is used on simulated streams.
#include <vram/cuda/cuda.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

void* ask(vram::pool<vram::sim_resource>& memory, cudaStream_t stream) {
    return memory.allocate(stream, 64);
}
