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

/// Makes the host wait for the stream `s`, which may still use a freed block of the resource `mr`,
/// and behind which no event can be recorded. If that wait fails, the host waits for the device of
/// the stream, or, if that is unknown, of `mr`. Returns true if a wait succeeded, or, without a
/// wait, if the process is ending. Returns false if both waits failed, or if the stream is being
/// captured, so that a wait would break the capture: the stream may then still use the block.
///
/// Failure   Each failed wait is reported to the error sink.
/// Threads   Any thread may call, without holding a lock.
/// Cost      One wait of the host; after a failure, one for the whole device.
template <class Platform, class R>
[[nodiscard]] bool wait_for_user(typename Platform::stream s, R const& mr) noexcept {
    if (is_ending<Platform>()) { return true; }
    // If the query fails, the wait below fails too, and reports the error.
    if (captures<Platform>(s)) { return false; }
    return wait_or_report<Platform>(s, [&] {
        try {
            return Platform::device_of(s);
        } catch (...) { return device_of_resource(mr); }
    });
}

} // namespace detail
} // namespace vram
