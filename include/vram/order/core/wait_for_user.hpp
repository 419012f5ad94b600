// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `wait_for_user` waits on the host for the stream that uses a freed block.

#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/powers.hpp>          // device_of_resource
#include <vram/order/core/record_behind.hpp> // captures
#include <vram/order/core/wait_or_report.hpp>

namespace vram {
namespace detail {

/// Makes the host wait for the stream `s`, or else for its device. Returns true if memory of `mr`
/// that `s` used may be freed.
///
/// Failure   Each failed wait is reported. Returns false if all fail or `s` is being captured.
/// Threads   Any thread may call, without holding a lock.
template <class Platform, class R>
[[nodiscard]] bool wait_for_user(typename Platform::stream s, R const& mr) noexcept {
    if (is_ending<Platform>()) { return true; }
    // If the query fails, the wait below fails too, and reports the error.
    // A wait would invalidate the capture.
    if (captures<Platform>(s)) { return false; }
    return wait_or_report<Platform>(s, [&] {
        try {
            return Platform::device_of(s);
        } catch (...) { return device_of_resource(mr); }
    });
}

} // namespace detail
} // namespace vram
