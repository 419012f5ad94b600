// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_mark` has the device write a number into pinned memory, in stream order.

#include <vram/cuda/cuda_entry_point.hpp> // cuda_entry_point
#include <vram/cuda/cuda_error.hpp>       // cuda_error, cuda_check
#include <vram/cuda/cuda_stream_view.hpp> // cuda_stream_view

#include <cuda.h> // cuStreamWriteValue32: its type alone

#include <atomic>  // atomic
#include <cstdint> // uint32_t, uintptr_t

namespace vram {

/// Writes `value` to `where`, which is pinned, when everything before it in `stream` is over.
/// False: the driver or the device cannot, or not in this memory, and nothing will be written.
///
/// Failure   `cuda_error`
/// Threads   any; who reads `where` does so with an acquiring load
/// Cost      1 us, and 2 us on the device; a host function in its place holds the stream up for 35
inline bool cuda_mark(cuda_stream_view stream, std::uint32_t* where, std::uint32_t value) {
    using call = decltype(&::cuStreamWriteValue32);
    static std::atomic<call> known{nullptr};
    call                     write = known.load(std::memory_order_relaxed);
    if (write == nullptr) {
        constexpr unsigned since = 11070; // the one without a flag of the device
        write                    = cuda_entry_point<call>("cuStreamWriteValue32", since).call;
        if (write == nullptr) { return false; }
        known.store(write, std::memory_order_relaxed);
    }
    auto const with_call = [&] {
        auto const at = static_cast<CUdeviceptr>(reinterpret_cast<std::uintptr_t>(where));
        return static_cast<cudaError_t>(write(stream.get(), at, value, 0)); // the same numbers
    };
    cudaError_t const status = cuda_exit::or_done(with_call);
    if (status == cudaErrorNotSupported || status == cudaErrorInvalidValue) { return false; }
    cuda_check(status);
    return true;
}

} // namespace vram
