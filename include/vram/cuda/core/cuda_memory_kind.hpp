// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_memory_kind` asks CUDA for the kind of memory at an address.

#include <vram/concepts/memory_kind.hpp>
#include <vram/cuda/cuda_error.hpp> // cuda_check

#include <cuda_runtime_api.h> // cudaPointerGetAttributes

namespace vram {
namespace detail {

/// Returns the kind of memory at `p`: device, managed, pinned or pageable. Memory that is unknown
/// to CUDA is pageable. Throws `cuda_error`.
[[nodiscard]] inline memory_kind cuda_memory_kind(void const* p) {
    if (p == nullptr) { return memory_kind::pageable; }
    cudaPointerAttributes found{};
    // Sets the result for the case that CUDA is not called: at the end of the process and in a
    // child of `fork`. All memory then counts as pageable.
    found.type = cudaMemoryTypeUnregistered;
    cuda_check(cuda_exit::or_done([&] { return cudaPointerGetAttributes(&found, p); }));
    switch (found.type) {
    case cudaMemoryTypeDevice: return memory_kind::device;
    case cudaMemoryTypeManaged: return memory_kind::managed;
    case cudaMemoryTypeHost: return memory_kind::pinned;
    default: return memory_kind::pageable;
    }
}

} // namespace detail
} // namespace vram
