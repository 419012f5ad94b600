// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_capture_guard` lets the calling thread query and allocate during a graph capture.

#include <vram/cuda/core/cuda_stream_calls.hpp>
#include <vram/cuda/cuda_error.hpp>

#include <cuda_runtime_api.h> // cudaStreamCaptureMode

namespace vram {
namespace detail {

/// Makes the capture mode of the calling thread relaxed for a scope. During a capture in the
/// default mode (cudaStreamCaptureModeGlobal), a cudaMalloc or a cudaEventQuery of any thread, on
/// any stream, is refused *and ends the capture*. In relaxed mode it is an ordinary call. A
/// cudaStreamQuery of the captured stream ends the capture in every mode: the caller tests for a
/// capture first.
///
/// Failure   A failure is reported to the error sink, and the mode is unchanged.
/// Threads   Affects only the calling thread.
/// Cost      Two calls of the driver, about 8 ns each.
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

    /// The mode that the next call of `exchange` sets: relaxed in the constructor, and in the
    /// destructor the mode that the thread used before.
    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
    bool                  relaxed_;
};

} // namespace detail
} // namespace vram
