// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_capture_guard` lets the calling thread query and allocate during a graph capture.

#include <vram/cuda/core/cuda_stream_calls.hpp>
#include <vram/cuda/cuda_error.hpp>

#include <cuda_runtime_api.h> // cudaStreamCaptureMode

namespace vram {
namespace detail {

/// Sets the relaxed capture mode for the calling thread in a scope, so that calls such as
/// cudaMalloc and cudaEventQuery do not end a graph capture. A cudaStreamQuery of a captured stream
/// still ends the capture: the caller must test for a capture first.
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

    /// The capture mode for the next call of `exchange`. That call sets this mode and stores the
    /// previous mode here. So the first call sets the relaxed mode, and the second call restores
    /// the mode of the thread.
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool                  relaxed_;
};

} // namespace detail
} // namespace vram
