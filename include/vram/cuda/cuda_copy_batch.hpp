// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_copy_batch` begins many copies with one call of CUDA's.

#include <vram/cuda/cuda_stream_ids.hpp>  // is_proper
#include <vram/cuda/cuda_stream_view.hpp> // cuda_stream_view

#include <cuda_runtime_api.h> // cudaMemcpyBatchAsync

#include <cstddef> // size_t
#include <span>    // span

namespace vram {

/// Begins the copies `from[i]` to `to[i]` of `bytes[i]` bytes, in the order of `stream` and in none
/// among themselves. False, and nothing is begun: CUDA has no batches for the default streams or
/// in a capture, or not for this memory.
///
/// Failure   `cuda_error`; how many were begun nobody knows then
/// Threads   any
/// Cost      1.3 us a copy; 256 of 4 KiB are done in 0.6 of the time that single ones take
inline bool cuda_copy_batch(cuda_stream_view stream, std::span<void* const> to,
                            std::span<void const* const> from, std::span<std::size_t const> bytes) {
    if (to.empty()) { return true; }
    if (!cuda_stream_ids::is_proper(stream.get()) || stream.capturing()) { return false; }
    cudaMemcpyAttributes how{};
    how.srcAccessOrder    = cudaMemcpySrcAccessOrderStream;
    std::size_t first     = 0; // the copy from which on they are as `how` says
    auto const  with_call = [&] {
#if CUDART_VERSION >= 13000
        return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &how, &first,
                                    1, stream.get());
#else // it only reads them, and did not say so yet
        std::size_t failed = 0;
        return cudaMemcpyBatchAsync(const_cast<void**>(to.data()), const_cast<void**>(from.data()),
                                    const_cast<std::size_t*>(bytes.data()), to.size(), &how, &first,
                                    1, &failed, stream.get());
#endif
    };
    cudaError_t const status = cuda_exit::or_done(with_call);
    if (status == cudaErrorNotSupported || status == cudaErrorCallRequiresNewerDriver) {
        cuda_error::clear(status);
        return false;
    }
    cuda_check(status);
    return true;
}

} // namespace vram
