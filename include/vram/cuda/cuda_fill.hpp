// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_fill` sets each byte of a range to one value, in stream order.

#include <vram/cuda/cuda_stream_view.hpp>

#include <cuda_runtime_api.h> // cudaMemsetAsync

#include <cstddef>

namespace vram {

/// Sets each of the `bytes` bytes at `to` (device, pinned or managed memory) to `value`. Does
/// nothing if `bytes` is 0.
///
/// Failure   Throws `cuda_error`.
/// Threads   Any thread may call.
/// Streams   The fill is ordered in `stream`.
inline void cuda_fill(cuda_stream_view stream, void* to, std::byte value, std::size_t bytes) {
    if (bytes == 0) { return; }
    cuda_check(detail::cuda_exit::or_done(
        [&] { return cudaMemsetAsync(to, std::to_integer<int>(value), bytes, stream.get()); }));
}

} // namespace vram
