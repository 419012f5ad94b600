// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_memory_info` returns the free and the total memory of a device.

#include <vram/concepts/memory_info.hpp>
#include <vram/cuda/cuda_device_guard.hpp>

#include <cuda_runtime_api.h> // cudaMemGetInfo

#include <new> // nothrow

namespace vram {

/// Returns the free and the total memory of `device` in bytes. Other processes may change the free
/// memory at any time.
///
/// Failure   Throws `cuda_error`.
/// Threads   Any thread may call.
/// Cost      About 6 us.
[[nodiscard]] inline memory_info cuda_memory_info(cuda_device device = cuda_device::current()) {
    memory_info             info;
    cuda_device_guard const on{device};
    cuda_check(detail::cuda_exit::or_done([&] { return cudaMemGetInfo(&info.free, &info.total); }));
    return info;
}

/// Returns the free and the total memory of `device` in bytes; zeros if CUDA fails or must not be
/// called (end of the process, forked child). Never throws.
[[nodiscard]] inline memory_info cuda_memory_info(cuda_device device, std::nothrow_t) noexcept {
    try {
        return cuda_memory_info(device);
    } catch (...) { return {}; }
}

} // namespace vram
