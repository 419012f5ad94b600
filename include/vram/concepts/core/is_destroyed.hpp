// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_destroyed` tests if a stored stream handle belongs to a destroyed stream.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if the stream of a stored handle is known to be destroyed. Such a handle must not
/// be passed to the platform.
template <class Platform>
[[nodiscard]] bool is_destroyed(typename Platform::stream s) noexcept {
    if constexpr (requires { Platform::ended(s); }) {
        return Platform::ended(s);
    } else {
        return false;
    }
}

} // namespace detail
} // namespace vram
