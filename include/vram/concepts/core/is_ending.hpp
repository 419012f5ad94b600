// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_ending` tests if a platform must not be called any more because the process is ending.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if the process is ending, or is a forked child without a usable platform.
/// Destructors then neither wait nor free.
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
