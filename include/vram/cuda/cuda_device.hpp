// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_device` names a GPU by its number.

#include <vram/cuda/cuda_error.hpp> // cuda_check

#include <cuda_runtime_api.h> // cudaGetDevice

namespace vram {

/// A device ordinal, as the runtime counts them. A plain value: nothing is checked until it is
/// used.
///
/// Failure   `cuda_error`
/// Threads   any; each host thread has a current device of its own
/// Cost      `current` about 40 ns
class cuda_device {
public:
    constexpr cuda_device() noexcept = default;
    constexpr explicit cuda_device(int ordinal) noexcept : ordinal_{ordinal} {}

    /// The current device of this thread.
    [[nodiscard]] static cuda_device current() {
        int ordinal = 0;
        cuda_check(cuda_exit::or_done([&] { return cudaGetDevice(&ordinal); }));
        return cuda_device{ordinal};
    }

    /// How many devices there are.
    [[nodiscard]] static int count() {
        int devices = 0;
        cuda_check(cuda_exit::or_done([&] { return cudaGetDeviceCount(&devices); }));
        return devices;
    }

    [[nodiscard]] constexpr int ordinal() const noexcept { return ordinal_; }

    /// A number that the device has, such as `cudaDevAttrMultiProcessorCount`.
    [[nodiscard]] int attribute(cudaDeviceAttr which) const {
        int value = 0;
        cuda_check(
            cuda_exit::or_done([&] { return cudaDeviceGetAttribute(&value, which, ordinal_); }));
        return value;
    }

    /// Whether kernels of this device may reach memory of `peer`, once access is granted.
    [[nodiscard]] bool can_access(cuda_device peer) const {
        int can = 0;
        cuda_check(cuda_exit::or_done(
            [&] { return cudaDeviceCanAccessPeer(&can, ordinal_, peer.ordinal_); }));
        return can != 0;
    }

    friend constexpr bool operator==(cuda_device, cuda_device) noexcept = default;

private:
    int ordinal_ = 0;
};

} // namespace vram
