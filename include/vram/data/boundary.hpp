// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `boundary` selects the values of a volume's elements beyond its border.

#include <vram/base/core/smaller_of.hpp>
#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// Selects the values beyond the ends of an array. Each enumerator shows them, outside of the bars,
/// for the row `a b c d`.
enum class boundary {
    clip, ///< no elements: the part of a halo beyond the border is left out
    edge, ///< `a a|a b c d|d d`: the outermost element is repeated
    /// `c b|a b c d|c b`: reflected; the outermost element appears once (SciPy's mirror, OpenCV's
    /// reflect 101).
    mirror,
    symmetric, ///< `b a|a b c d|d c`: reflected; the outermost appears twice (SciPy's reflect)
    wrap,      ///< `c d|a b c d|a b`: the array repeats (periodic)
    constant,  ///< `x x|a b c d|x x`: all have one value `x`, set by the caller (default 0)
};

/// Result of `boundary_place` for a position without an element, for example beyond an end with
/// `boundary::clip`.
inline constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// Returns the index of the element that stands at position `at` of a row, or `nowhere` if there is
/// none. Beyond the ends of the row, `how` selects the element. The row has `extent` elements, at
/// most `PTRDIFF_MAX`.
[[nodiscard]] constexpr std::size_t boundary_place(boundary how, std::ptrdiff_t at,
                                                   std::size_t extent) noexcept {
    if (at >= 0 && static_cast<std::size_t>(at) < extent) { return static_cast<std::size_t>(at); }
    if (extent == 0) { return nowhere; }
    // Returns `at` modulo `period`, never negative.
    auto const within = [at](std::size_t period) {
        std::size_t const away =
            at < 0 ? std::size_t{0} - static_cast<std::size_t>(at) : static_cast<std::size_t>(at);
        std::size_t const rest = away % period;
        return at < 0 && rest != 0 ? period - rest : rest;
    };
    switch (how) {
    case boundary::clip:
    case boundary::constant: return nowhere;
    case boundary::edge: return at < 0 ? 0 : extent - 1;
    case boundary::wrap: return within(extent);
    case boundary::mirror: {
        if (extent == 1) { return 0; }
        std::size_t const period = 2 * (extent - 1);
        std::size_t const place  = within(period);
        return detail::smaller_of(place, period - place);
    }
    case boundary::symmetric: {
        std::size_t const period = 2 * extent;
        std::size_t const place  = within(period);
        return detail::smaller_of(place, period - 1 - place);
    }
    }
    return nowhere;
}

/// Divides the `length` positions from `begin` into runs that have consecutive elements, and calls
/// `visit(offset, place, count)` for each: positions from `begin + offset`, elements from `place`.
/// Skips positions without an element.
template <class Visit>
constexpr void for_each_run(boundary how, std::ptrdiff_t begin, std::size_t length,
                            std::size_t extent, Visit visit) {
    for (std::size_t i = 0; i < length;) {
        std::ptrdiff_t const at     = begin + static_cast<std::ptrdiff_t>(i);
        bool const           inside = at >= 0 && static_cast<std::size_t>(at) < extent;
        std::size_t const    place  = boundary_place(how, at, extent);
        std::size_t          count  = 1;
        // No element here: skip the positions up to the first element of the row, or behind the row
        // all that are left.
        if (place == nowhere) {
            count = at < 0 ? detail::smaller_of(length - i,
                                                std::size_t{0} - static_cast<std::size_t>(at))
                           : length - i;
        } else {
            if (inside || how == boundary::wrap) {
                count = detail::smaller_of(length - i, extent - place);
            }
            visit(i, place, count);
        }
        i += count;
    }
}

} // namespace vram
