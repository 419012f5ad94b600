// SPDX-License-Identifier: Apache-2.0
#include "library.hpp"

bool allocates(vram::host_resource& memory) {
    void* const p = memory.allocate_sync(64);
    memory.deallocate_sync(p, 64);
    return p != nullptr;
}
