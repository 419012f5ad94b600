// SPDX-License-Identifier: Apache-2.0
// refuse: (constraints not satisfied|no matching member function|no matching function|no instance of function)
// A stack that knows of no streams has no allocate(stream, ...): put stream_ordered into it.
#include <vram/layer/limiting.hpp>
#include <vram/source/region_resource.hpp>

void* ask(vram::limiting<vram::region_resource<>>& memory) { return memory.allocate({}, 64); }
