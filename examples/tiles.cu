// SPDX-License-Identifier: Apache-2.0
// The device half of the tiles example.

#include "tiles_kernels.hpp"

#include <vram/cuda/cuda_error.hpp> // cuda_check

namespace {

__global__ void smooth_tile(voxel const* batch, vram::tile_box<3> box, std::size_t n, voxel* out) {
    std::size_t const i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (i < n) { out[i] = smooth_one(batch, box, i); }
}

} // namespace

void smooth_on_device(vram::cuda_stream_view stream, voxel const* batch,
                      vram::tile_box<3> const& box, voxel* out) {
    constexpr unsigned threads = 256;
    std::size_t const  n       = vram::tiles<3>::inner_elements(box);
    auto const         blocks  = static_cast<unsigned>((n + threads - 1) / threads);
    smooth_tile<<<blocks, threads, 0, stream.get()>>>(batch, box, n, out);
    vram::cuda_check(cudaGetLastError());
}
