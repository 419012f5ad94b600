// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_memory_kind` asks CUDA what an address is.

#include <vram/concepts/memory_kind.hpp> // memory_kind
#include <vram/cuda/cuda_error.hpp>      // cuda_check

#include <cuda_runtime_api.h> // cudaPointerGetAttributes

namespace vram {

/// The kind of memory at `p`, whoever allocated or registered it; pageable where CUDA has never
/// heard of it.
///
/// Failure   `cuda_error`
/// Threads   any
/// Cost      about 0.1 us
[[nodiscard]] inline memory_kind cuda_memory_kind(void const* p) {
    if (p == nullptr) { return memory_kind::pageable; }
    cudaPointerAttributes found{};
    found.type = cudaMemoryTypeUnregistered; // what is not asked any more at the end of the process
    cuda_check(cuda_exit::or_done([&] { return cudaPointerGetAttributes(&found, p); }));
    switch (found.type) {
    case cudaMemoryTypeDevice: return memory_kind::device;
    case cudaMemoryTypeManaged: return memory_kind::managed;
    case cudaMemoryTypeHost: return memory_kind::pinned;
    default: return memory_kind::pageable;
    }
}

} // namespace vram
