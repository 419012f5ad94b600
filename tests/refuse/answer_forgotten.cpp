// SPDX-License-Identifier: Apache-2.0
// refuse: (nodiscard|unused-result)
// Ignoring an allocation loses the memory, and the compiler warns.
#include <vram/source/host_resource.hpp>

#pragma GCC diagnostic error "-Wunused-result"

void lose(vram::host_resource& memory) { memory.allocate_sync(64); }
