// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `boundary` says how a volume continues beyond its border.

#include <vram/base/requirements.hpp> // C++20

#include <algorithm> // clamp, min
#include <cstddef>   // size_t, ptrdiff_t

namespace vram {

/// How the rows `a b c d` go on to both sides.
enum class boundary {
    clip,      ///< not at all: what is beyond is left out
    edge,      ///< `a a|a b c d|d d`: the last one again
    mirror,    ///< `c b|a b c d|c b`: backwards, the last one once (SciPy's mirror, reflect 101)
    symmetric, ///< `b a|a b c d|d c`: backwards, the last one twice (SciPy's reflect)
    wrap,      ///< `c d|a b c d|a b`: from the other side
    constant,  ///< `x x|a b c d|x x`: a value of the user's, 0 where none is named
};

/// The place of what is no element of the volume.
inline constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

/// Where the element is taken from that stands at `at` of `extent`; `nowhere` where it is none of
/// the volume's. Reflections and turns go on for ever, however far `at` is outside. Cost: constant.
[[nodiscard]] constexpr std::size_t boundary_place(boundary how, std::ptrdiff_t at,
                                                   std::size_t extent) noexcept {
    if (at >= 0 && static_cast<std::size_t>(at) < extent) { return static_cast<std::size_t>(at); }
    if (extent == 0) { return nowhere; }
    // at modulo a period, from 0
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
        return std::min(place, period - place);
    }
    case boundary::symmetric: {
        std::size_t const period = 2 * extent;
        std::size_t const place  = within(period);
        return std::min(place, period - 1 - place);
    }
    }
    return nowhere;
}

/// Visits the `length` elements from `begin` on in runs that lie together in the volume:
/// `visit(offset, place, count)`, where `offset` counts from `begin`. What comes from nowhere is
/// passed over. Cost: one visit for what is inside, one for each element outside (`wrap`: for each
/// turn).
template <class Visit>
constexpr void for_each_run(boundary how, std::ptrdiff_t begin, std::size_t length,
                            std::size_t extent, Visit visit) {
    for (std::size_t i = 0; i < length;) {
        std::ptrdiff_t const at     = begin + static_cast<std::ptrdiff_t>(i);
        bool const           inside = at >= 0 && static_cast<std::size_t>(at) < extent;
        std::size_t const    place  = boundary_place(how, at, extent);
        std::size_t          count  = 1;
        if (place == nowhere) { // to the volume, or to the end
            count = at < 0 ? std::min(length - i, std::size_t{0} - static_cast<std::size_t>(at))
                           : length - i;
        } else {
            if (inside || how == boundary::wrap) { count = std::min(length - i, extent - place); }
            visit(i, place, count);
        }
        i += count;
    }
}

} // namespace vram
