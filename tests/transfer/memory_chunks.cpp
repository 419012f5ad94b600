// SPDX-License-Identifier: Apache-2.0
#include <vram/transfer/memory_chunks.hpp> // the header alone declares the name below

static_assert(sizeof(vram::memory_chunks) != 0);
