// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `device_delta` measures the memory that a scope took from the device.

#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/platform.hpp> // has_devices
#include <vram/concepts/powers.hpp>   // device_of_resource
#include <vram/concepts/resource.hpp> // synchronous_resource

#include <cstddef>

namespace vram {

/// Measures how the used memory of a device changes after the construction of this object. Includes
/// memory that no resource counts: that of contexts, modules, other libraries and processes.
///
///     device_delta probe{memory};                        // the device of the resource
///     device_delta<cuda_platform> probe{cuda_device{1}}; // any other
///
/// If the platform does not know the device's memory, every result is 0.
///
/// Failure   Throws errors of the platform.
/// Threads   One thread at a time.
/// Cost      One call of the platform for each function except `peak()`.
template <has_devices Platform>
class device_delta {
public:
    using device = typename Platform::device;

    /// Starts the measurement of the device `d`.
    [[nodiscard]] explicit device_delta(device d = Platform::current_device())
        : device_{d}, before_{used()}, peak_{before_} {}

    /// Starts the measurement of the device of `memory`, or of the thread's current device if the
    /// resource `memory` has none.
    template <synchronous_resource Resource>
        requires std::same_as<typename Resource::platform, Platform>
    [[nodiscard]] explicit device_delta(Resource const& memory)
        : device_delta{detail::device_of_resource(memory)} {}

    /// Returns the increase of used bytes on the device since this object was made, or 0 if fewer
    /// bytes are used.
    [[nodiscard]] std::size_t bytes() {
        sample();
        return now_ > before_ ? now_ - before_ : 0;
    }

    /// Returns the decrease of used bytes on the device since this object was made, or 0 if more
    /// bytes are used.
    [[nodiscard]] std::size_t returned() {
        sample();
        return now_ < before_ ? before_ - now_ : 0;
    }

    /// Reads the used bytes of the device now, so that `peak()` includes them.
    void sample() {
        now_ = used();
        if (now_ > peak_) { peak_ = now_; }
    }

    /// Returns the largest increase of used bytes on the device since this object was made. Only
    /// `sample`, `bytes` and `returned` read the used bytes. Higher values between these calls are
    /// missed.
    [[nodiscard]] std::size_t peak() const noexcept { return peak_ - before_; }

private:
    [[nodiscard]] std::size_t used() const {
        memory_info const info = Platform::memory(device_);
        return info.total - info.free;
    }

    device      device_;
    std::size_t before_;
    std::size_t now_ = 0;
    std::size_t peak_;
};

template <synchronous_resource Resource>
device_delta(Resource const&) -> device_delta<typename Resource::platform>;

} // namespace vram
