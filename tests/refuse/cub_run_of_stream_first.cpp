// SPDX-License-Identifier: Apache-2.0
// refuse-first: write cub_run\(memory, stream, algorithm\)
// needs: cuda
// needs: cccl
// The stream before the resource.
#include <vram/cuda/cuda_resource.hpp>
#include <vram/interop/cub.hpp>
#include <vram/layer/stream_ordered.hpp>

void run(vram::stream_ordered<vram::cuda_resource>& memory, vram::cuda_stream_view stream) {
    vram::cub_run(stream, memory, [](void*, std::size_t&) { return cudaSuccess; });
}
