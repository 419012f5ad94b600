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

/// Makes the host wait for the stream `s`, or else for the device of `s` (if unknown, that of
/// `mr`). Returns true if memory of `mr` that `s` used may be freed.
///
/// Failure   Each failed wait is reported. Returns false if all fail or `s` is being captured.
/// Threads   Any thread may call, without holding a lock.
template <class Platform, class R>
[[nodiscard]] bool wait_for_user(typename Platform::stream s, R const& mr) noexcept {
    if (is_ending<Platform>()) { return true; }
    // A wait would invalidate a capture. If the query fails, `captures` returns false, and the wait
    // below reports its own error.
    if (captures<Platform>(s)) { return false; }
    return wait_or_report<Platform>(s, [&] {
        try {
            return Platform::device_of(s);
        } catch (...) { return device_of_resource(mr); }
    });
}

} // namespace detail
} // namespace vram
