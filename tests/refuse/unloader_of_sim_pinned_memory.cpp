// SPDX-License-Identifier: Apache-2.0
// refuse-first: pinned memory belongs to another platform than the stream: write pinned_resource with cuda_stream
// needs: cuda
// CUDA copies to its own pinned memory.
#include <vram/cuda/cuda.hpp>
#include <vram/sim/sim.hpp>
#include <vram/vram.hpp>

void unload(vram::cuda_stream& s) {
    auto const     sink = [](std::span<std::byte const>, std::size_t) {};
    vram::unloader results{sink, s, vram::cuda_async_resource{},
                           vram::pool{vram::sim_pinned_resource{}}};
}
