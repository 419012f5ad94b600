// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counter` is a signed counter with a peak and a total, for a scope of `statistics`.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {

/// Counts the bytes or blocks that a scope allocates and frees. `value` is negative if the scope
/// frees more than it allocates.
///
/// Threads   Not synchronised: protect it with a lock.
struct counter {
    std::ptrdiff_t value = 0; ///< the sum of `add` minus the sum of `sub`
    std::ptrdiff_t peak  = 0; ///< the highest `value` so far; 0 if it was never positive
    std::uint64_t  total = 0; ///< the sum of all additions

    /// Adds `n` to the value and to the total. Raises the peak to the value if that is higher.
    constexpr void add(std::size_t n) noexcept {
        value += static_cast<std::ptrdiff_t>(n);
        total += n;
        peak = detail::larger_of(peak, value);
    }
    /// Subtracts `n` from the value.
    constexpr void sub(std::size_t n) noexcept { value -= static_cast<std::ptrdiff_t>(n); }

    /// Adds the counts of `inner`, a nested scope that began at 0, as if its `add` and `sub` had
    /// been called on this counter.
    constexpr void merge(counter const& inner) noexcept {
        peak = detail::larger_of(peak, value + inner.peak);
        value += inner.value;
        total += inner.total;
    }

    friend bool operator==(counter const&, counter const&) = default;
};

} // namespace vram
