// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_device_guard` makes a device current for a scope.

#include <vram/cuda/cuda_device.hpp> // cuda_device

#include <cuda_runtime_api.h> // cudaSetDevice

#include <new> // nothrow_t

namespace vram {

/// The current device is another until the scope ends, then the one from before.
///
///     { cuda_device_guard on{cuda_device{1}};  kernel<<<grid, block>>>(); }
///
/// Failure   `cuda_error`, and the device is as it was; with `std::nothrow`, `status`; in the
///           destructor, the error sink
/// Threads   of this thread alone
/// Cost      one `cudaGetDevice` (40 ns); two `cudaSetDevice` more when the device is another
class cuda_device_guard {
public:
    explicit cuda_device_guard(cuda_device device) : status_{enter(device)} { cuda_check(status_); }

    /// For places that may not throw: whoever cares asks for the status.
    cuda_device_guard(cuda_device device, std::nothrow_t) noexcept : status_{enter(device)} {}

    cuda_device_guard(cuda_device_guard&&) = delete;

    ~cuda_device_guard() {
        if (before_ == none) { return; }
        cuda_error::report("cudaSetDevice",
                           cuda_exit::or_done([&] { return cudaSetDevice(before_); }));
    }

    /// Whether the device could be made current; an error is still latched.
    [[nodiscard]] cudaError_t status() const noexcept { return status_; }

private:
    static constexpr int none = -1;

    cudaError_t enter(cuda_device device) noexcept {
        return cuda_exit::or_done([&] {
            int         now    = 0;
            cudaError_t status = cudaGetDevice(&now);
            if (status != cudaSuccess || now == device.ordinal()) { return status; }
            status = cudaSetDevice(device.ordinal());
            if (status == cudaSuccess) { before_ = now; }
            return status;
        });
    }

    int         before_ = none; ///< what to make current again
    cudaError_t status_;
};

} // namespace vram
