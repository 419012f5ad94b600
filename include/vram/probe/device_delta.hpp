// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `device_delta` measures the memory that a scope took from the device, in the figures of the
/// device.

#include <vram/concepts/memory_info.hpp> // memory_info
#include <vram/concepts/platform.hpp>    // has_devices
#include <vram/concepts/resource.hpp>    // synchronous_resource

#include <cstddef> // size_t

namespace vram {

/// The difference between a device's used memory then and now.
///
///     device_delta probe{memory};                        // the current device of its platform
///     device_delta<cuda_platform> probe{cuda_device{1}}; // any other
///
/// This counts what no resource sees, too: contexts, modules, other libraries, other processes. A
/// leak that shows here and not in a `memory_delta` was made by somebody else. Where the platform
/// does not know its memory, every answer is 0.
///
/// Failure   the platform's error
/// Threads   one at a time
/// Cost      one call of the platform when made, and one for each question but `peak()`
template <has_devices Platform>
class device_delta {
public:
    using device = typename Platform::device;

    explicit device_delta(device d = Platform::current_device())
        : device_{d}, before_{used()}, peak_{before_} {}

    /// The current device of the platform of `memory`.
    template <synchronous_resource Resource>
        requires std::same_as<typename Resource::platform, Platform>
    explicit device_delta(Resource const&) : device_delta{} {}

    /// Bytes more in use on the device than at the start; 0 where there are fewer.
    [[nodiscard]] std::size_t bytes() {
        sample();
        return now_ > before_ ? now_ - before_ : 0;
    }

    /// Bytes fewer in use than at the start; 0 where there are more.
    [[nodiscard]] std::size_t returned() {
        sample();
        return now_ < before_ ? before_ - now_ : 0;
    }

    /// Looks now, for `peak()`: a device keeps no peak of its own.
    void sample() {
        now_ = used();
        if (now_ > peak_) { peak_ = now_; }
    }

    /// The most beyond the start that was seen by a question or a sample.
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
