// SPDX-License-Identifier: Apache-2.0
// refuse-first: the host writes to the memory of a pmr: write pmr{pool{pinned_resource{}}}
// needs: cuda
// A memory resource of the standard library over memory that the host cannot access.
#include <vram/cuda/cuda_resource.hpp>
#include <vram/interop/pmr.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>

void run(vram::pool<vram::stream_ordered<vram::cuda_resource>>& memory) { vram::pmr wrong{memory}; }
