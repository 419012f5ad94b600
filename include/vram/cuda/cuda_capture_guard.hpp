// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_capture_guard` lets this thread ask and allocate while a graph is being captured.

#include <vram/cuda/cuda_error.hpp>        // cuda_error
#include <vram/cuda/cuda_stream_calls.hpp> // cuda_stream_calls

#include <cuda_runtime_api.h> // cudaStreamCaptureMode

namespace vram {

/// While a capture runs in its default mode, a cudaMalloc or a cudaEventQuery of the same thread,
/// on whatever stream, is refused *and ends the capture*. In relaxed mode it is an ordinary call.
/// The guard makes the mode of this thread relaxed for a scope: what vram does to its own memory
/// and events never touches the captured streams.
///
/// Failure   the error sink; the mode stays what it was
/// Threads   of this thread alone
/// Cost      two calls of the driver, about 8 ns each
class cuda_capture_guard {
public:
    cuda_capture_guard() noexcept { relaxed_ = exchange(); }
    cuda_capture_guard(cuda_capture_guard&&) = delete;
    ~cuda_capture_guard() {
        if (relaxed_) { exchange(); }
    }

private:
    bool exchange() noexcept {
        return cuda_error::report("cudaThreadExchangeStreamCaptureMode", cuda_exit::or_done([&] {
                                      return cuda_stream_calls::here().exchange_mode(mode_);
                                  }));
    }

    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed; ///< the other mode, each time
    bool                  relaxed_;
};

} // namespace vram
