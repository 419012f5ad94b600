// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_clock` tells the host's time, virtual where the platform's time is.

#include <vram/base/requirements.hpp> // C++20

#include <chrono>  // steady_clock
#include <cstdint> // uint64_t

namespace vram {

/// Nanoseconds since some moment: of `Platform::now()` where there is one, else of the steady
/// clock.
///
/// Threads   any
/// Cost      25 ns in real time
template <class Platform>
struct platform_clock {
    [[nodiscard]] static std::uint64_t now() {
        if constexpr (requires { Platform::now().count(); }) {
            return static_cast<std::uint64_t>(Platform::now().count());
        } else {
            return static_cast<std::uint64_t>(
                std::chrono::duration_cast<std::chrono::nanoseconds>(
                    std::chrono::steady_clock::now().time_since_epoch())
                    .count());
        }
    }
};

} // namespace vram
