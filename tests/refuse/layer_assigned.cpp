// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(memory\) .* resource_ref\{memory\} to borrow it, or shared\{std::move\(memory\)\}
// An assignment would copy the layer as well.
#include <vram/layer/limiting.hpp>
#include <vram/source/host_resource.hpp>

using memory_type = vram::limiting<vram::host_resource>;

void exchange(memory_type& a, memory_type& b) { b = a; }
