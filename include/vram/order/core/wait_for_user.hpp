// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wait_for_user` waits on the host for the stream that uses a freed block.

#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/powers.hpp>          // device_of_resource
#include <vram/order/core/record_behind.hpp> // captures
#include <vram/order/core/wait_or_report.hpp>

namespace vram {
namespace detail {

/// Makes the host wait for the stream `s`. If that fails, the host waits for the device of `s`. If
/// this device is unknown, the host waits for the device of the resource `mr` and for the current
/// device instead. Returns true if memory of `mr` that `s` used may be freed. If the process is
/// ending, returns true without a wait.
///
/// Failure   Each failed wait is reported. Returns false if all fail or `s` is being captured.
/// Threads   Any thread may call, without holding a lock.
template <class Platform, class R>
[[nodiscard]] bool wait_for_user(typename Platform::stream s, R const& mr) noexcept {
    if (is_ending<Platform>()) { return true; }
    // A wait for a stream that is being captured would invalidate the capture.
    if (captures<Platform>(s)) { return false; }
    return wait_or_report<Platform>(s, [&] {
        try {
            return Platform::device_of(s);
        } catch (...) { // `s` may be a stream of another device than that of `mr`
            await_device<Platform>(device_of_resource(mr));
            return Platform::current_device();
        }
    });
}

} // namespace detail
} // namespace vram
