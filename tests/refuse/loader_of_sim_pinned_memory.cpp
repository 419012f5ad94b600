// SPDX-License-Identifier: Apache-2.0
// refuse-first: pinned memory belongs to another platform than the stream: write pinned_resource with cuda_stream
// needs: cuda
// CUDA copies from its own pinned memory.
#include <vram/cuda/cuda.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

void load(vram::cuda_stream& s, vram::pool<vram::cuda_async_resource>& device,
          vram::sim_pinned_resource& pinned) {
    auto const   fill = [](std::span<std::byte>, std::size_t) { return std::size_t{0}; };
    vram::loader batches{fill, s, vram::resource_ref{device}, vram::resource_ref{pinned}};
}
