// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tile_copies` lists the copies between a volume in memory and one of its tiles.

#include <vram/data/core/box_copies.hpp>
#include <vram/data/tiles.hpp> // tiles, tile_box

#include <cstddef>

namespace vram {
namespace detail {

/// Lists the copies between a volume and a tile. A function of the caller receives each as a
/// `pitched_copy`, and executes or enqueues the copy.
///
///     tile_copies<3> const copies{cut, sizeof(float)};
///     copies.gather(7, device, volume, [&](pitched_copy const& c) { Platform::copy(stream, c); });
///
/// Cost      One copy for a tile inside a volume of up to three dimensions, and more at a border.
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
            // Number of elements of the tile and of the halo behind it, in this dimension.
            std::size_t const past = box.extent[d] - box.before[d];
            if (box.before[d] > box.origin[d]) { return false; }
            if (past > cut_.options().extent[d] - box.origin[d]) { return false; }
        }
        return true;
    }

    /// Calls `visit(pitched_copy)` for each copy that collects tile `index` and its halo at `to`.
    /// With `boundary::constant`, the caller must write the elements beyond the border itself.
    template <class Visit>
    void gather(std::size_t index, void* to, void const* volume, Visit visit) const {
        runs<Visit> all{*this, cut_[index], to, volume, visit};
        all.template walk<0>();
    }
    /// Calls `visit(pitched_copy)` for each copy that writes tile `index`, without its halo, to the
    /// volume. `part` states if `from` contains the halo.
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
    /// Finds the boxes to copy for one tile. `walk` divides tile and halo, in each dimension, into
    /// runs of consecutive elements of the volume; one run of each dimension makes a box.
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
