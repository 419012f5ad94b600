// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_destroyed` tells of a stream that is kept for later whether it is still there.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

/// Whether the stream of a handle that was noted before is known to have ended: then the handle may
/// not be shown to the platform, which on some is as bad as any dangling pointer. The handle of a
/// later stream counts as ended until somebody has asked for that one's id. `Platform::ended` where
/// there is one; else nobody knows, or whoever asks is told by an error.
template <class Platform>
[[nodiscard]] bool is_destroyed(typename Platform::stream s) noexcept {
    if constexpr (requires { Platform::ended(s); }) {
        return Platform::ended(s);
    } else {
        return false;
    }
}

} // namespace vram
