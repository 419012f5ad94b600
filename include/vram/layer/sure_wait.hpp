// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sure_wait` is the wait before memory goes back where nothing may be thrown.

#include <vram/base/report_caught.hpp>    // report_caught
#include <vram/concepts/await_device.hpp> // await_device
#include <vram/concepts/platform.hpp>     // has_devices

#include <concepts> // same_as

namespace vram {

/// Makes the host wait for `place` (a stream, an event or a device), and where the platform refuses
/// that, for all of the device that `where()` names. False: nobody knows whether the memory is
/// still in use, so it must not go back.
///
/// Failure   each refusal is told to the error sink
/// Threads   any; without a lock
/// Cost      one wait of the host, of the whole device after a refusal
template <class Platform, class Place, class Where>
    requires has_devices<Platform>
[[nodiscard]] bool sure_wait(Place const& place, Where where) noexcept {
    try {
        if constexpr (std::same_as<Place, typename Platform::device>) {
            await_device<Platform>(place);
        } else {
            Platform::synchronize(place);
        }
        return true;
    } catch (...) {
        report_caught({.kind = error_kind::platform_error, .call = "the wait for a last use"});
    }
    try {
        await_device<Platform>(where());
        return true;
    } catch (...) {
        report_caught({.kind = error_kind::platform_error, .call = "the wait for a device"});
    }
    return false;
}

} // namespace vram
