// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tile_copies` lists the copies between a volume in memory and one of its tiles.

#include <vram/data/core/box_copies.hpp>
#include <vram/data/tiles.hpp> // tiles, tile_box

#include <cstddef>

namespace vram {
namespace detail {

/// Lists the copies between a volume (an array of up to four dimensions) and one of its tiles.
/// `gather` and `scatter` pass each copy as a `pitched_copy` to a function of the caller. That
/// function executes or enqueues the copy.
///
///     tile_copies<3> const copies{cut, sizeof(float)};
///     copies.gather(7, device, volume, [&](pitched_copy const& c) { Platform::copy(stream, c); });
///
/// Cost      One copy for a tile inside a volume of up to three dimensions, unless rows are over
///           2 GiB apart. More for a fourth dimension, and if `gather` repeats border elements.
template <std::size_t Rank>
class tile_copies {
public:
    /// Creates the object for the tiles of `cut`; an element of the volume has `element` bytes.
    tile_copies(tiles<Rank> const& cut, std::size_t element) : cut_{cut}, element_{element} {}

    [[nodiscard]] tiles<Rank> const& cut() const noexcept { return cut_; }

    /// Returns the bytes of tile `index` with its halo, or of the tile alone if `part` is `inner`.
    [[nodiscard]] std::size_t bytes(std::size_t index, tile_part part = tile_part::whole) const {
        tile_box<Rank> const box = cut_[index];
        bool const           all = part == tile_part::whole;
        return (all ? tiles<Rank>::elements(box) : tiles<Rank>::inner_elements(box)) * element_;
    }
    /// Returns true if tile `index` and its halo lie completely inside the volume.
    [[nodiscard]] bool inside(std::size_t index) const {
        tile_box<Rank> const box = cut_[index];
        for (std::size_t d = 0; d < Rank; ++d) {
            // Number of elements from the tile's first element to the halo's end, in dimension `d`.
            std::size_t const past = box.extent[d] - box.before[d];
            if (box.before[d] > box.origin[d]) { return false; }
            if (past > cut_.options().extent[d] - box.origin[d]) { return false; }
        }
        return true;
    }

    /// Calls `visit(pitched_copy)` for each copy of tile `index` and its halo (the elements around
    /// it) from `volume` to `to`. With `boundary::constant`, these copies do not write the elements
    /// beyond the border of the volume. The caller must write these elements.
    template <class Visit>
    void gather(std::size_t index, void* to, void const* volume, Visit visit) const {
        runs<Visit> all{*this, cut_[index], to, volume, visit};
        all.template walk<0>();
    }
    /// Calls `visit(pitched_copy)` for each copy of tile `index`, without its halo, from `from` to
    /// `volume`. `part`: whether the memory `from` contains the halo or only the tile.
    template <class Visit>
    void scatter(std::size_t index, void const* from, tile_part part, void* volume,
                 Visit visit) const {
        tile_box<Rank> const box        = cut_[index];
        std::size_t const    zero[Rank] = {};
        if (part == tile_part::whole) {
            box_copies<Rank>(volume, {cut_.options().extent, box.origin}, from,
                             {box.extent, box.before}, box.inner, element_, visit);
        } else {
            box_copies<Rank>(volume, {cut_.options().extent, box.origin}, from, {box.inner, zero},
                             box.inner, element_, visit);
        }
    }

private:
    /// Finds the copies for one tile with its halo. `walk` divides each dimension of the tile into
    /// runs of consecutive elements of the volume. One run in each dimension forms a box (a
    /// rectangular part of the volume), which `box_copies` copies.
    template <class Visit>
    struct runs {
        tile_copies const&   of;
        tile_box<Rank> const box;
        void* const          to;
        void const* const    volume;
        Visit&               visit;
        std::size_t          to_origin[Rank]{}, from_origin[Rank]{}, count[Rank]{};

        template <std::size_t D>
        void walk() {
            tile_options<Rank> const& how = of.cut_.options();
            if constexpr (D == Rank) {
                box_copies<Rank>(to, {box.extent, to_origin}, volume, {how.extent, from_origin},
                                 count, of.element_, [this](pitched_copy const& c) { visit(c); });
            } else {
                auto const begin = static_cast<std::ptrdiff_t>(box.origin[D]) -
                                   static_cast<std::ptrdiff_t>(box.before[D]);
                for_each_run(how.outside, begin, box.extent[D], how.extent[D],
                             [this](std::size_t offset, std::size_t place, std::size_t n) {
                                 to_origin[D]   = offset;
                                 from_origin[D] = place;
                                 count[D]       = n;
                                 walk<D + 1>();
                             });
            }
        }
    };

    tiles<Rank> cut_;
    std::size_t element_;
};

} // namespace detail
} // namespace vram
