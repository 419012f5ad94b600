// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(memory\) .* resource_ref\{memory\}
// A pool that another variable holds is moved into a layer, or borrowed.
#include <vram/layer/limiting.hpp>
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

vram::pool<vram::host_resource> memory;
vram::limiting                  budget{memory, 1024};
