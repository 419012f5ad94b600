// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_mark` lets the device write a number into pinned memory, in stream order.

#include <vram/cuda/core/cuda_entry_point.hpp>
#include <vram/cuda/cuda_error.hpp> // cuda_error, cuda_check
#include <vram/cuda/cuda_stream_view.hpp>

#include <cuda.h> // cuStreamWriteValue32: its type alone

#include <atomic> // atomic
#include <cstdint>

namespace vram {
namespace detail {

/// Enqueues a write of `value` to pinned memory at `where`. Returns false if the driver, device or
/// memory lacks support. Throws `cuda_error`.
inline bool cuda_mark(cuda_stream_view stream, std::uint32_t* where, std::uint32_t value) {
    using call = decltype(&::cuStreamWriteValue32);
    static std::atomic<call> known{nullptr};
    call                     write = known.load(std::memory_order_relaxed);
    if (write == nullptr) {
        // CUDA 11.7 is the first version in which cuStreamWriteValue32 may be called without asking
        // first if the device supports it.
        constexpr unsigned since = 11070;
        write                    = cuda_entry_point<call>("cuStreamWriteValue32", since).call;
        if (write == nullptr) { return false; }
        known.store(write, std::memory_order_relaxed);
    }
    auto const with_call = [&] {
        auto const at = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(where));
        // The cast is right because CUresult and cudaError_t have equal numbers.
        return static_cast<cudaError_t>(write(stream.get(), at, value, 0));
    };
    cudaError_t const status = cuda_exit::or_done(with_call);
    if (status == cudaErrorNotSupported || status == cudaErrorInvalidValue) { return false; }
    cuda_check(status);
    return true;
}

} // namespace detail
} // namespace vram
