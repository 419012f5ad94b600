// SPDX-License-Identifier: Apache-2.0
// refuse: the elements must not need a larger alignment than operator new gives
// An element needs a larger alignment than its memory would have.
#include <vram/base/core/heap_array.hpp>

struct alignas(256) wide {
    char bytes[256];
};

void grow(vram::detail::heap_array<wide>& all) { all.push(); }
