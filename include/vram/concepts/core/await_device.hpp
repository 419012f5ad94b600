// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `await_device` waits for a device, also while another thread captures a stream.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Blocks the calling thread until the device has finished all its work.
///
/// Failure   Throws errors of the platform.
template <class Platform>
void await_device(typename Platform::device const& where) {
    if constexpr (requires { Platform::await_all(where); }) {
        Platform::await_all(where);
    } else {
        Platform::synchronize(where);
    }
}

} // namespace detail
} // namespace vram
