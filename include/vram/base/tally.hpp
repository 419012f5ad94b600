// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tally` counts what goes out and comes back, and remembers the highest.

#include <algorithm> // max
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t

namespace vram {

/// A level with its peak and its totals. A plain value: whoever shares it, locks it.
struct tally {
    std::size_t   value = 0; ///< now
    std::size_t   peak  = 0; ///< the highest since the start
    std::uint64_t total = 0; ///< everything ever added

    constexpr void add(std::size_t n) noexcept {
        value += n;
        total += n;
        peak = std::max(peak, value);
    }
    constexpr void sub(std::size_t n) noexcept { value -= n; }

    friend bool operator==(tally const&, tally const&) = default;
};

} // namespace vram
