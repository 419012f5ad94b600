// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_fill` writes one byte everywhere, in stream order.

#include <vram/cuda/cuda_stream_view.hpp> // cuda_stream_view

#include <cuda_runtime_api.h> // cudaMemsetAsync

#include <cstddef> // size_t, byte

namespace vram {

/// Sets `bytes` bytes of device, pinned or managed memory to `value`; nothing when there are none.
///
/// Failure   `cuda_error`
/// Threads   any
/// Streams   in the order of `stream`; the host goes on for device memory, and waits for pinned and
///           managed memory
inline void cuda_fill(cuda_stream_view stream, void* to, std::byte value, std::size_t bytes) {
    if (bytes == 0) { return; }
    cuda_check(cuda_exit::or_done(
        [&] { return cudaMemsetAsync(to, std::to_integer<int>(value), bytes, stream.get()); }));
}

} // namespace vram
