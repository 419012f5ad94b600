// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_ending` tells whether a platform must not be called any more because the process ends.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

/// Returns true if the process has begun to end, or is a child of `fork` that cannot use the
/// platform. A destructor then waits for nothing, frees nothing, reports nothing and takes no lock:
/// all memory ends with the process. `Platform::ending` if there is one; else false.
template <class Platform>
[[nodiscard]] bool is_ending() noexcept {
    if constexpr (requires { Platform::ending(); }) {
        return Platform::ending();
    } else {
        return false;
    }
}

} // namespace vram
