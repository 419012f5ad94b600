// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_copy_batch` enqueues many copies with one call of CUDA.

#include <vram/cuda/core/cuda_stream_ids.hpp> // is_proper
#include <vram/cuda/cuda_stream_view.hpp>

#include <cuda_runtime_api.h> // cudaMemcpyBatchAsync

#include <cstddef>
#include <span> // span

namespace vram {
namespace detail {

/// Enqueues copies of `bytes[i]` bytes from `from[i]` to `to[i]` with one call of CUDA. The copies
/// are unordered among themselves. Returns false and enqueues nothing if CUDA does not support that
/// call, or if `stream` is a default stream or is being captured. Throws `cuda_error`.
inline bool cuda_copy_batch(cuda_stream_view stream, std::span<void* const> to,
                            std::span<void const* const> from, std::span<std::size_t const> bytes) {
    if (to.empty()) { return true; }
    if (!cuda_stream_ids::is_proper(stream.get()) || stream.capturing()) { return false; }
    cudaMemcpyAttributes how{};
    how.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    // Index of the first copy to which `how` applies. Because it is 0, `how` applies to all copies.
    std::size_t first     = 0;
    auto const  with_call = [&] {
#if CUDART_VERSION >= 13000
        return cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), to.size(), &how, &first,
                                    1, stream.get());
#else // the parameters are not const before CUDA 13
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

} // namespace detail
} // namespace vram
