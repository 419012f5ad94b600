// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `add_on_device` adds bytes in device memory to a digest in device memory, in stream order: with
/// two CUDA kernels, or with host callables on the simulated device that declare their memory
/// accesses.

#include "digest.hpp" // digest, partial_digest

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined VRAM_EXAMPLE_NVCC
#include <vram/cuda/cuda_stream_view.hpp>

/// `scratch` has room for `digest_tiles(bytes)` elements. `place` is the offset of the bytes in the
/// file.
void add_on_device(vram::cuda_stream_view stream, std::byte const* data, std::size_t bytes,
                   std::uint64_t place, partial_digest* scratch, digest* into);
#endif

#if !defined __CUDACC__ // nvcc does not compile the simulated device
#include <vram/sim/sim.hpp>

// [simulated]
inline void add_on_device(vram::sim_stream_view stream, std::byte const* data, std::size_t bytes,
                          std::uint64_t place, partial_digest* scratch, digest* into) {
    std::size_t const tiles         = digest_tiles(bytes);
    std::size_t const scratch_bytes = tiles * sizeof(partial_digest);
    auto const        takes         = [](std::size_t n) {
        return vram::sim_time{2000} + vram::sim_transfer_time(n, 400'000'000'000);
    };
    vram::sim_launch(stream,
                     {.name     = "count tiles",
                      .reads    = {{data, bytes}},
                      .writes   = {{scratch, scratch_bytes}},
                      .duration = takes(bytes)},
                     [=] {
                         std::byte const* const from = vram::sim_view(data);
                         partial_digest* const  to   = vram::sim_view(scratch);
                         for (std::size_t tile = 0; tile < tiles; ++tile) {
                             std::size_t const begin = tile * digest_tile;
                             std::size_t const n     = std::min(digest_tile, bytes - begin);
                             to[tile]                = {};
                             add_to(to[tile], from + begin, n, place + begin);
                         }
                     });
    vram::sim_launch(stream,
                     {.name     = "add tiles",
                      .reads    = {{scratch, scratch_bytes}, {into, sizeof(digest)}},
                      .writes   = {{into, sizeof(digest)}},
                      .duration = takes(scratch_bytes)},
                     [=] {
                         partial_digest const* const from = vram::sim_view(scratch);
                         for (std::size_t tile = 0; tile < tiles; ++tile) {
                             add_to(*vram::sim_view(into), from[tile]);
                         }
                     });
}
// [/simulated]
#endif
