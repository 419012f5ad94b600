// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `await_device` waits for a device at any moment, also while another thread captures a stream.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

/// Makes the host wait for all work that the device has so far. `Platform::await_all` if there is
/// one, which breaks no capture; else `Platform::synchronize`.
///
/// Failure   what the platform throws
/// Cost      a wait of the host for the whole device
template <class Platform>
void await_device(typename Platform::device const& where) {
    if constexpr (requires { Platform::await_all(where); }) {
        Platform::await_all(where);
    } else {
        Platform::synchronize(where);
    }
}

} // namespace vram
