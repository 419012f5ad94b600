// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `counter` is a signed counter with a peak and a total, for a scope of `statistics`.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {

/// A counter of bytes or blocks, such as those that a scope of the layer `statistics` allocates and
/// frees. `value` is the allocated number minus the freed number, so it may be negative.
///
/// Threads   Not synchronised: protect it with a lock.
struct counter {
    std::ptrdiff_t value = 0; ///< the sum passed to `add`, minus the sum passed to `sub`
    std::ptrdiff_t peak  = 0; ///< the highest `value` so far; 0 if `value` was never positive
    std::uint64_t  total = 0; ///< the sum passed to `add`; `sub` does not reduce it

    /// Adds `n` to the value and to the total. Raises the peak to the value if that is higher.
    constexpr void add(std::size_t n) noexcept {
        value += static_cast<std::ptrdiff_t>(n);
        total += n;
        peak = detail::larger_of(peak, value);
    }
    /// Subtracts `n` from the value.
    constexpr void sub(std::size_t n) noexcept { value -= static_cast<std::ptrdiff_t>(n); }

    /// Adds the counts of a nested scope. `inner` has counted this scope from 0 on. The result is
    /// as if the scope had called `add` and `sub` of this counter instead.
    constexpr void merge(counter const& inner) noexcept {
        peak = detail::larger_of(peak, value + inner.peak);
        value += inner.value;
        total += inner.total;
    }

    friend bool operator==(counter const&, counter const&) = default;
};

} // namespace vram
