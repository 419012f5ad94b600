// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `volumes` computes the expected tiles element by element.

#include <vram/data/tiles.hpp>

#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

namespace volumes {

/// Returns the index of the element at `at` of a row of `extent` elements, computed step by step;
/// -1 if there is none.
inline std::ptrdiff_t walked(vram::boundary how, std::ptrdiff_t at, std::ptrdiff_t extent) {
    using enum vram::boundary;
    if (at >= 0 && at < extent) { return at; }
    switch (how) {
    case clip:
    case constant: return -1;
    case edge: return at < 0 ? 0 : extent - 1;
    case wrap:
        while (at < 0) { at += extent; }
        while (at >= extent) { at -= extent; }
        return at;
    case mirror:
    case symmetric: break;
    }
    // from 0 step by step, turning at the border: there mirror moves back, symmetric stays once
    std::ptrdiff_t place = 0, step = at < 0 ? -1 : 1;
    for (std::ptrdiff_t left = at < 0 ? -at : at; left > 0; --left) {
        if (place + step >= 0 && place + step < extent) {
            place += step;
        } else {
            step = -step;
            if (how == mirror && extent > 1) { place += step; }
        }
    }
    return place;
}

/// A volume whose elements contain their positions.
inline std::vector<int> counted(std::size_t elements) {
    std::vector<int> all(elements);
    std::iota(all.begin(), all.end(), 1);
    return all;
}

/// Returns the expected batch of `box`, element by element.
template <std::size_t N>
std::vector<int> gathered(vram::tiles<N> const& cut, vram::tile_box<N> const& box,
                          std::vector<int> const& volume, int outside) {
    std::vector<int> all;
    std::size_t      at[N] = {}; // in the batch
    for (std::size_t n = 0; n < vram::tiles<N>::elements(box); ++n) {
        std::ptrdiff_t place = 0;
        bool           there = true;
        for (std::size_t d = 0; d < N; ++d) {
            auto const extent = static_cast<std::ptrdiff_t>(cut.options().extent[d]);
            auto const from   = static_cast<std::ptrdiff_t>(box.origin[d] + at[d]) -
                              static_cast<std::ptrdiff_t>(box.before[d]);
            std::ptrdiff_t const in = walked(cut.options().outside, from, extent);
            there                   = there && in >= 0;
            place                   = place * extent + in;
        }
        all.push_back(there ? volume[static_cast<std::size_t>(place)] : outside);
        for (std::size_t d = N; d-- > 0 && ++at[d] == box.extent[d];) { at[d] = 0; }
    }
    return all;
}

/// Any cut of a small volume.
template <std::size_t N>
vram::tile_options<N> any(std::mt19937& random) {
    auto const up_to = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>{0, most}(random);
    };
    vram::tile_options<N> how;
    for (std::size_t d = 0; d < N; ++d) {
        how.extent[d] = 1 + up_to(N < 3 ? 20 : 7);
        how.tile[d]   = 1 + up_to(N < 3 ? 22 : 8);                 // also larger than the volume
        how.halo[d]   = up_to(1) == 0 ? 0 : up_to(N < 3 ? 25 : 3); // also larger than that
    }
    how.outside = static_cast<vram::boundary>(up_to(5));
    how.order   = static_cast<vram::tile_order>(up_to(2));
    return how;
}

} // namespace volumes
