// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `boundary` selects the values of a volume's elements beyond its border.

#include <vram/base/core/smaller_of.hpp>
#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// Selects the values beyond the ends of an array. Each example shows the array `a b c d` between
/// two bars. Outside of the bars are the values beyond the ends of the array.
enum class boundary {
    clip, ///< no values beyond the ends: the halo around a tile ends at the border of the volume
    edge, ///< `a a|a b c d|d d`: the first or the last element is repeated
    /// `c b|a b c d|c b`: the array is reflected without repeating its outermost element (SciPy's
    /// mirror, OpenCV's reflect 101).
    mirror,
    /// `b a|a b c d|d c`: the array is reflected with its outermost element (SciPy's reflect).
    symmetric,
    wrap, ///< `c d|a b c d|a b`: the whole array is repeated (periodic)
    /// `x x|a b c d|x x`: each value beyond an end is `x`, which the caller sets (default 0).
    constant,
};

/// Returned by `boundary_place` if no element supplies the value at a position. An example is a
/// position beyond an end of the array with `boundary::clip`.
inline constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// Returns the index of the element that supplies the value at position `at`, for a row of `extent`
/// elements. Inside the row, the result is `at`. Outside the row, `how` selects the element.
/// Returns `nowhere` if there is no such element. `extent` must be at most `PTRDIFF_MAX`.
[[nodiscard]] constexpr std::size_t boundary_place(boundary how, std::ptrdiff_t at,
                                                   std::size_t extent) noexcept {
    if (at >= 0 && static_cast<std::size_t>(at) < extent) { return static_cast<std::size_t>(at); }
    if (extent == 0) { return nowhere; }
    // Returns the remainder of `at` divided by `period`, from 0 to `period - 1`.
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

/// Finds the values at `length` positions from `begin` on, for a row of `extent` elements. `how`
/// selects the values outside the row. Calls `visit(offset, place, count)` for each run of `count`
/// positions with the values of consecutive elements. The first position of the run is `begin +
/// offset`. The first element has the index `place`. Skips positions without a value.
template <class Visit>
constexpr void for_each_run(boundary how, std::ptrdiff_t begin, std::size_t length,
                            std::size_t extent, Visit visit) {
    for (std::size_t i = 0; i < length;) {
        std::ptrdiff_t const at     = begin + static_cast<std::ptrdiff_t>(i);
        bool const           inside = at >= 0 && static_cast<std::size_t>(at) < extent;
        std::size_t const    place  = boundary_place(how, at, extent);
        std::size_t          count  = 1;
        // Skips positions without an element: those before the first element of the row, or all
        // remaining positions behind the row.
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
