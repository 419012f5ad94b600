// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_memory_info` returns the free and the total memory of a device.

#include <vram/concepts/memory_info.hpp>   // memory_info
#include <vram/cuda/cuda_device_guard.hpp> // cuda_device_guard

#include <cuda_runtime_api.h> // cudaMemGetInfo

#include <new> // nothrow

namespace vram {

/// Free and total memory of `device` in bytes, of which other processes may take at any time. Zeros
/// once the process ends.
///
/// Failure   `cuda_error`
/// Threads   any
/// Cost      about 6 us
[[nodiscard]] inline memory_info cuda_memory_info(cuda_device device = cuda_device::current()) {
    memory_info             info;
    cuda_device_guard const on{device};
    cuda_check(cuda_exit::or_done([&] { return cudaMemGetInfo(&info.free, &info.total); }));
    return info;
}

/// The same where nothing may be thrown, as part of another report: zeros where CUDA does not say.
[[nodiscard]] inline memory_info cuda_memory_info(cuda_device device, std::nothrow_t) noexcept {
    try {
        return cuda_memory_info(device);
    } catch (...) { return {}; }
}

} // namespace vram
