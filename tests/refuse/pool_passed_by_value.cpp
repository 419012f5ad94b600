// SPDX-License-Identifier: Apache-2.0
// refuse-first: never copied: write std::move\(memory\)
// A function that takes a pool by value would copy it.
#include <vram/pool/pool.hpp>
#include <vram/source/host_resource.hpp>

using memory_type = vram::pool<vram::host_resource>;

void train(memory_type);
void run(memory_type& memory) { train(memory); }
