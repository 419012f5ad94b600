// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `try_wait` makes the host wait, and reports an error instead of throwing it.

#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/observation.hpp> // host_waits_made

#include <concepts> // invocable, same_as

namespace vram {
namespace detail {

/// Makes the host wait for `what`: a stream, an event, a device, or a function that waits when
/// called. Returns true if the wait succeeded. Otherwise reports the error and returns false.
/// `call`: name of the wait in the report.
template <class Platform, class What>
bool try_wait(What const& what, char const* call = std::same_as<What, typename Platform::device>
                                                       ? "the wait for a device"
                                                       : "the wait for a stream") noexcept {
    try {
        if constexpr (std::same_as<What, typename Platform::device>) {
            await_device<Platform>(what);
        } else if constexpr (std::invocable<What const&>) {
            what();
        } else {
            Platform::synchronize(what);
        }
        ++host_waits_made;
        return true;
    } catch (...) { report_failed_call(call); }
    return false;
}

} // namespace detail
} // namespace vram
