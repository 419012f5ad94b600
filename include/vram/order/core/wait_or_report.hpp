// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wait_or_report` waits on the host for the last use of memory, without throwing.

#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/platform.hpp> // has_devices
#include <vram/order/core/try_wait.hpp>

namespace vram {
namespace detail {

/// Makes the host wait for `place`: a stream, an event, a device, or a function that waits when
/// called. If that wait fails, the host waits for the device that the function `where` returns.
/// Returns true if one wait succeeded, or if the process is ending.
///
/// Failure   Each failed wait is reported. Returns false if both waits fail: the memory must not be
///           freed.
/// Threads   Any thread may call, without holding a lock.
template <class Platform, class Place, class Where>
    requires has_devices<Platform>
[[nodiscard]] bool wait_or_report(Place const& place, Where where) noexcept {
    if (is_ending<Platform>()) { return true; }
    return try_wait<Platform>(place, "the wait for the last use of memory") ||
           try_wait<Platform>([&] { await_device<Platform>(where()); }, "the wait for a device");
}

} // namespace detail
} // namespace vram
