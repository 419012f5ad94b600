// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform_clock` is the host's clock, which is virtual on the simulated platform.

#include <vram/base/core/durations.hpp> // steady_clock

#include <cstdint>

namespace vram {

/// A clock in nanoseconds since an arbitrary moment: `Platform::now()` if the platform has it
/// (simulated time), otherwise `std::chrono::steady_clock`.
///
/// Threads   Any thread may call.
/// Cost      About 25 ns for a clock in real time.
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
