// SPDX-License-Identifier: Apache-2.0
// refuse-first: synchronous and takes no stream: write stream_ordered<cuda_resource>.* or call allocate_sync
// A layer over a synchronous resource is synchronous.
#include <vram/layer/limiting.hpp>
#include <vram/source/region_resource.hpp>

struct stream {};
void* ask(vram::limiting<vram::region_resource<>>& memory) { return memory.allocate(stream{}, 64); }
