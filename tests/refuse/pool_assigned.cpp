// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(memory\) .* resource_ref\{memory\} to borrow it, or shared\{std::move\(memory\)\}
// An assignment would copy the pool as well.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

using memory_type = vram::pool<vram::host_resource>;

void exchange(memory_type& a, memory_type& b) { b = a; }
