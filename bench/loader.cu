// SPDX-License-Identifier: Apache-2.0
// A kernel with a given duration.

#include <vram/cuda/cuda_error.hpp>       // cuda_check
#include <vram/cuda/cuda_stream_view.hpp> // cuda_stream_view

#include <cstdint>

namespace {

__device__ std::uint64_t device_clock() {
    std::uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void spin(std::uint64_t ns) {
    std::uint64_t const begin = device_clock();
    while (device_clock() - begin < ns) {}
}

} // namespace

void spin_on_device(vram::cuda_stream_view stream, std::uint64_t ns) {
    spin<<<1, 1, 0, stream.get()>>>(ns);
    vram::cuda_check(cudaGetLastError());
}
