// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_device` is the number of a GPU.

#include <vram/cuda/cuda_error.hpp> // cuda_check

#include <cuda_runtime_api.h> // cudaGetDevice

namespace vram {

/// A GPU, named by its ordinal in the CUDA runtime. The constructor does not check the ordinal.
///
///     int const sms = cuda_device::current().attribute(cudaDevAttrMultiProcessorCount);
///
/// Failure   Throws `cuda_error`.
/// Threads   Each host thread has its own current device.
/// Cost      `current` takes about 40 ns.
class cuda_device {
public:
    constexpr cuda_device() noexcept = default;
    /// Makes a value for the device with this number. The number is not checked.
    constexpr explicit cuda_device(int ordinal) noexcept : ordinal_{ordinal} {}

    /// Returns the current device of the calling thread; device 0 if the process is ending or a
    /// child of `fork`.
    [[nodiscard]] static cuda_device current() {
        int ordinal = 0;
        cuda_check(detail::cuda_exit::or_done([&] { return cudaGetDevice(&ordinal); }));
        return cuda_device{ordinal};
    }

    /// Returns the number of devices that the CUDA runtime sees; 0 if the process is ending or a
    /// child of `fork`.
    [[nodiscard]] static int count() {
        int devices = 0;
        cuda_check(detail::cuda_exit::or_done([&] { return cudaGetDeviceCount(&devices); }));
        return devices;
    }

    /// Returns the ordinal of the device: its number in the order of the CUDA runtime.
    [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

    /// Returns an attribute of the device, such as `cudaDevAttrMultiProcessorCount`.
    [[nodiscard]] int attribute(cudaDeviceAttr which) const {
        int value = 0;
        cuda_check(detail::cuda_exit::or_done(
            [&] { return cudaDeviceGetAttribute(&value, which, ordinal_); }));
        return value;
    }

    /// Returns true if kernels of this device can be given access to the memory of `peer`. Does not
    /// tell if they have access.
    [[nodiscard]] bool can_access(cuda_device peer) const {
        int can = 0;
        cuda_check(detail::cuda_exit::or_done(
            [&] { return cudaDeviceCanAccessPeer(&can, ordinal_, peer.ordinal_); }));
        return can != 0;
    }

    friend constexpr bool operator==(cuda_device, cuda_device) noexcept = default;

private:
    int ordinal_ = 0;
};

} // namespace vram
