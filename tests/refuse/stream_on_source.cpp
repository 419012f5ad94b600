// SPDX-License-Identifier: Apache-2.0
// refuse-first: synchronous and takes no stream: write stream_ordered<cuda_resource>.* or call allocate_sync
// needs: cuda
// A source is synchronous: cudaMalloc takes no stream.
#include <vram/cuda/cuda.hpp>

void* ask(vram::cuda_resource& memory, vram::cuda_stream& stream) {
    return memory.allocate(stream, 64);
}
