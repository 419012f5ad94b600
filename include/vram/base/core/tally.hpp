// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tally` is a counter with a peak and a total.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A number, such as the live bytes, with its peak and the sum of all additions to it.
///
/// Threads   Not synchronised: protect it with a lock.
struct tally {
    std::size_t   value = 0; ///< the sum passed to `add`, minus the sum passed to `sub`
    std::size_t   peak  = 0; ///< the largest `value` so far
    std::uint64_t total = 0;

    constexpr void add(std::size_t n) noexcept {
        value += n;
        total += n;
        peak = larger_of(peak, value);
    }
    constexpr void sub(std::size_t n) noexcept { value -= n; }

    friend bool operator==(tally const&, tally const&) = default;
};

} // namespace detail
} // namespace vram
