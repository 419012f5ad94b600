// SPDX-License-Identifier: Apache-2.0
// refuse-first: write stream_ordered<cuda_resource>, or a pool over it
// needs: cuda
// needs: cccl
// Temporary storage from a synchronous resource.
#include <vram/cuda/cuda_resource.hpp>
#include <vram/interop/cub.hpp>

void run(vram::cuda_resource& memory, vram::cuda_stream_view stream) {
    vram::cub_run(memory, stream, [](void*, std::size_t&) { return cudaSuccess; });
}
