// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `smooth_on_device` smooths one tile in device memory, in stream order: with a CUDA kernel, or
/// with a host callable on the simulated device that declares its memory accesses.

#include <vram/data/tiles.hpp> // tile_box

#include <cstddef>
#include <cstdint>

#if defined __CUDACC__
#define TILES_ANYWHERE __host__ __device__
#else
#define TILES_ANYWHERE
#endif

using voxel = std::uint16_t;

/// The reach of the filter to each side, in elements.
inline constexpr int smooth_reach = 2;

/// The filter 1 4 6 4 1 in each dimension, in integers, so that results are equal on all machines.
/// `at(z, y, x)` returns the voxel at this offset.
template <class At>
TILES_ANYWHERE voxel smoothed(At at) {
    constexpr std::uint32_t weight[] = {1, 4, 6, 4, 1};
    std::uint32_t           sum      = 1 << 11; // half of the divisor, for rounding
    for (int z = -smooth_reach; z <= smooth_reach; ++z) {
        for (int y = -smooth_reach; y <= smooth_reach; ++y) {
            for (int x = -smooth_reach; x <= smooth_reach; ++x) {
                sum += weight[z + 2] * weight[y + 2] * weight[x + 2] * at(z, y, x);
            }
        }
    }
    return static_cast<voxel>(sum >> 12);
}

/// Returns voxel `i` of the smoothed tile. `batch` is the tile with its halo.
TILES_ANYWHERE inline voxel smooth_one(voxel const* batch, vram::tile_box<3> const& box,
                                       std::size_t i) {
    std::size_t const  x     = i % box.inner[2] + box.before[2];
    std::size_t const  y     = i / box.inner[2] % box.inner[1] + box.before[1];
    std::size_t const  z     = i / box.inner[2] / box.inner[1] + box.before[0];
    voxel const* const here  = batch + (z * box.extent[1] + y) * box.extent[2] + x;
    auto const         row   = static_cast<std::ptrdiff_t>(box.extent[2]);
    auto const         slice = static_cast<std::ptrdiff_t>(box.extent[1]) * row;
    return smoothed([=](int dz, int dy, int dx) { return here[dz * slice + dy * row + dx]; });
}

#if defined VRAM_EXAMPLE_NVCC
#include <vram/cuda/cuda_stream_view.hpp>

/// `out` has room for the tile without halo.
void smooth_on_device(vram::cuda_stream_view stream, voxel const* batch,
                      vram::tile_box<3> const& box, voxel* out);
#endif

#if !defined __CUDACC__ // nvcc does not compile the simulated device
#include <vram/sim/sim.hpp>

inline void smooth_on_device(vram::sim_stream_view stream, voxel const* batch,
                             vram::tile_box<3> const& box, voxel* out) {
    std::size_t const n    = vram::tiles<3>::inner_elements(box);
    std::size_t const seen = vram::tiles<3>::elements(box);
    vram::sim_launch(
        stream,
        {.name     = "smooth",
         .reads    = {{batch, seen * sizeof(voxel)}},
         .writes   = {{out, n * sizeof(voxel)}},
         .duration = vram::sim_time{2000} + vram::sim_transfer_time(n, 10'000'000'000)},
        [=] {
            voxel const* const from = vram::sim_view(batch);
            for (std::size_t i = 0; i < n; ++i) {
                vram::sim_view(out)[i] = smooth_one(from, box, i);
            }
        });
}
#endif
