// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_ending` tests if a platform must not be called any more because the process is ending.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if the process has begun to end, or is a forked child that cannot use the platform.
/// If so, destructors of vram neither wait, free, report nor lock: the system releases the memory
/// with the process. Calls `Platform::ending` if it exists, and otherwise returns false.
template <class Platform>
[[nodiscard]] bool is_ending() noexcept {
    if constexpr (requires { Platform::ending(); }) {
        return Platform::ending();
    } else {
        return false;
    }
}

} // namespace detail
} // namespace vram
