// SPDX-License-Identifier: Apache-2.0
// The smallest .cu file of a user. Without a GPU it only has to start.
#include <vram/cuda/cuda_resource.hpp>
#include <vram/cuda/cuda_stream.hpp>

__global__ void touch(char* p) { p[0] = 1; }

int main() {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) { return 0; }
    vram::cuda_stream   stream;
    vram::cuda_resource memory;
    void* const         p = memory.allocate_sync(64);
    touch<<<1, 1, 0, stream.view().get()>>>(static_cast<char*>(p));
    bool const done = cudaDeviceSynchronize() == cudaSuccess;
    memory.deallocate_sync(p, 64);
    return done ? 0 : 1;
}
