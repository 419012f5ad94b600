// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counter` is a level that may fall below where it started, with its peak and its total.

#include <algorithm> // max
#include <cstddef>   // size_t, ptrdiff_t
#include <cstdint>   // uint64_t

namespace vram {

/// A `tally` for questions that are asked while things are already out: what comes back may have
/// gone out earlier. A plain value: whoever shares it, locks it.
struct counter {
    std::ptrdiff_t value = 0; ///< went out less came back since the question was asked
    std::ptrdiff_t peak  = 0; ///< the highest `value`, at least zero
    std::uint64_t  total = 0; ///< everything that went out

    constexpr void add(std::size_t n) noexcept {
        value += static_cast<std::ptrdiff_t>(n);
        total += n;
        peak = std::max(peak, value);
    }
    constexpr void sub(std::size_t n) noexcept { value -= static_cast<std::ptrdiff_t>(n); }

    /// Takes in what a question inside this one has seen since this one was last looked at.
    constexpr void merge(counter const& inner) noexcept {
        peak = std::max(peak, value + inner.peak);
        value += inner.value;
        total += inner.total;
    }

    friend bool operator==(counter const&, counter const&) = default;
};

} // namespace vram
