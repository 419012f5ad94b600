// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_device_guard` makes a device current for a scope.

#include <vram/cuda/cuda_device.hpp>

#include <cuda_runtime_api.h> // cudaSetDevice

#include <new> // nothrow_t

namespace vram {

/// Makes `device` current in the calling thread for a scope. The destructor makes the previous
/// device current again.
///
///     { cuda_device_guard on{cuda_device{1}};  kernel<<<grid, block>>>(); }
///
/// Failure   The constructor throws `cuda_error` or, with `std::nothrow`, stores the error in
///           `status`.
/// Threads   Affects only the calling thread.
/// Cost      One `cudaGetDevice` (40 ns), and two `cudaSetDevice` if the device differs.
class cuda_device_guard {
public:
    /// Makes `device` current. Throws `cuda_error` if that fails.
    [[nodiscard]] explicit cuda_device_guard(cuda_device device) : status_{enter(device)} {
        cuda_check(status_);
    }

    /// Makes `device` current without throwing. If that fails, the current device is unchanged, and
    /// the caller gets the error from `status()`.
    [[nodiscard]] cuda_device_guard(cuda_device device, std::nothrow_t) noexcept
        : status_{enter(device)} {}

    cuda_device_guard(cuda_device_guard&&) = delete;

    ~cuda_device_guard() {
        if (before_ == none) { return; }
        cuda_error::report("cudaSetDevice",
                           detail::cuda_exit::or_done([&] { return cudaSetDevice(before_); }));
    }

    /// Returns the error of the constructor, or cudaSuccess. With `std::nothrow`, the error stays
    /// latched in the runtime (`cudaGetLastError`).
    [[nodiscard]] cudaError_t status() const noexcept { return status_; }

private:
    static constexpr int none = -1;

    cudaError_t enter(cuda_device device) noexcept {
        return detail::cuda_exit::or_done([&] {
            int         now    = 0;
            cudaError_t status = cudaGetDevice(&now);
            if (status != cudaSuccess || now == device.ordinal()) { return status; }
            status = cudaSetDevice(device.ordinal());
            if (status == cudaSuccess) { before_ = now; }
            return status;
        });
    }

    int         before_ = none; ///< the device that the destructor makes current again, or `none`
    cudaError_t status_;
};

} // namespace vram
