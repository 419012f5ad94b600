// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tiles` is a volume of one to four dimensions, cut into tiles with a halo.

#include <vram/base/contract.hpp>         // expects
#include <vram/transfer/boundary.hpp>     // boundary
#include <vram/transfer/layout_error.hpp> // layout_error

#include <algorithm> // max, min
#include <cstddef>   // size_t, ptrdiff_t
#include <limits>    // numeric_limits

namespace vram {

/// The order in which tiles come.
enum class tile_order {
    last_fastest,  ///< as elements lie: the last dimension moves first
    first_fastest, ///< the first dimension moves first
    snake,         ///< as `last_fastest`, but to and fro: each tile touches the one before it
};

/// How a volume is cut. Dimensions stand as in C arrays: the last one lies together in memory.
template <std::size_t Rank>
struct tile_options {
    std::size_t extent[Rank]{};           ///< elements of the volume
    std::size_t tile[Rank]{};             ///< elements of a tile; those at the far border are cut
    std::size_t halo[Rank]{};             ///< elements that a tile sees beyond itself, at each side
    boundary    outside = boundary::clip; ///< what a halo sees beyond the volume
    tile_order  order   = tile_order::last_fastest;
};

/// One tile: where it lies, and how its batch is made. A plain value, for kernels as well.
template <std::size_t Rank>
struct tile_box {
    std::size_t origin[Rank]; ///< of the tile in the volume, without its halo
    std::size_t inner[Rank];  ///< elements of the tile
    std::size_t before[Rank]; ///< elements of halo in the batch, before the tile
    std::size_t extent[Rank]; ///< elements of the batch: tile and halo

    friend bool operator==(tile_box const&, tile_box const&) = default;
};

/// The tiles cover the volume, each element once; only their halos overlap.
///
///     tiles<3> const cut{{.extent = {900, 512, 512}, .tile = {64, 64, 64}, .halo = {2, 2, 2},
///                         .outside = boundary::mirror}};
///     cut.size();              // 15 * 8 * 8
///     cut[17].origin;          // where the tile of batch 17 lies
///     cut.index_of({100, 0, 511});   // the batch whose tile has this element
///
/// A batch is its tile with the halo, row by row with no gaps. Where the volume ends within a tile,
/// the tile is cut, and with `boundary::clip` the halo is as well; the batch is then smaller.
///
/// Failure   `layout_error` where a tile is empty or a number too large, with the dimension. A
///           volume with no elements has no tiles
/// Threads   any; it is a value
/// Cost      a division for each dimension
template <std::size_t Rank>
    requires(Rank >= 1 && Rank <= 4)
class tiles {
public:
    using box_type = tile_box<Rank>;

    explicit tiles(tile_options<Rank> options) : options_{options} {
        using why                  = layout_error::reason;
        constexpr std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / 4;
        std::size_t           all  = 1;
        for (std::size_t d = Rank; d-- > 0;) {
            auto const [extent, tile, halo] = at(d);
            if (tile == 0) { throw layout_error{why::empty, 0, 0, d}; }
            if (extent != 0 && extent > most / all) {
                throw layout_error{why::too_large, extent, most / all, d};
            }
            all *= extent != 0 ? extent : 1;
            count_[d] = extent / tile + (extent % tile != 0 ? 1 : 0);
            size_ *= count_[d];
            if (halo > most / 4) { throw layout_error{why::too_large, halo, most / 4, d}; }
            std::size_t const room = most / elements_;
            std::size_t const seen = largest(d);
            if (seen > room) { throw layout_error{why::too_large, seen, room, d}; }
            elements_ *= std::max<std::size_t>(seen, 1);
        }
    }

    /// Tiles.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Tiles in dimension `d`.
    [[nodiscard]] std::size_t count(std::size_t d) const noexcept { return count_[d]; }
    /// Elements of the largest batch, at least 1.
    [[nodiscard]] std::size_t elements() const noexcept { return elements_; }
    /// Elements of the volume.
    [[nodiscard]] std::size_t volume() const noexcept { return product(options_.extent); }
    /// How it is cut.
    [[nodiscard]] tile_options<Rank> const& options() const noexcept { return options_; }

    /// Elements of the batch of `box`, and of its tile alone.
    [[nodiscard]] static constexpr std::size_t elements(box_type const& box) noexcept {
        return product(box.extent);
    }
    [[nodiscard]] static constexpr std::size_t inner_elements(box_type const& box) noexcept {
        return product(box.inner);
    }

    /// The tile of batch `index`, which there is.
    [[nodiscard]] box_type operator[](std::size_t index) const {
        expects(index < size_, "tiles: there is no such tile");
        box_type    box{};
        std::size_t left = index;
        bool const  last = options_.order != tile_order::first_fastest;
        for (std::size_t i = 0; i < Rank; ++i) { // the fastest dimension first
            std::size_t const d     = last ? Rank - 1 - i : i;
            std::size_t       place = left % count_[d];
            left /= count_[d];
            if (options_.order == tile_order::snake && left % 2 != 0) {
                place = count_[d] - 1 - place;
            }
            lay(box, d, place);
        }
        return box;
    }

    /// The batch whose tile has the element at `place`, which the volume has.
    [[nodiscard]] std::size_t index_of(std::size_t const (&place)[Rank]) const {
        std::size_t index = 0;
        bool const  last  = options_.order != tile_order::first_fastest;
        for (std::size_t i = 0; i < Rank; ++i) { // the slowest dimension first
            std::size_t const d = last ? i : Rank - 1 - i;
            expects(place[d] < options_.extent[d], "tiles: the volume has no such element");
            std::size_t tile = place[d] / options_.tile[d];
            if (options_.order == tile_order::snake && index % 2 != 0) {
                tile = count_[d] - 1 - tile;
            }
            index = index * count_[d] + tile;
        }
        return index;
    }

private:
    struct dimension {
        std::size_t extent, tile, halo;
    };
    [[nodiscard]] dimension at(std::size_t d) const noexcept {
        return {options_.extent[d], options_.tile[d], options_.halo[d]};
    }
    [[nodiscard]] static constexpr std::size_t product(std::size_t const (&of)[Rank]) noexcept {
        std::size_t all = 1;
        for (std::size_t const n : of) { all *= n; }
        return all;
    }
    /// Elements that a batch has at most in dimension `d`.
    [[nodiscard]] std::size_t largest(std::size_t d) const noexcept {
        auto const [extent, tile, halo] = at(d);
        if (extent == 0) { return 0; }
        if (options_.outside != boundary::clip) { return std::min(tile, extent) + 2 * halo; }
        return tile >= extent ? extent : std::min(extent, tile + 2 * halo);
    }
    /// Tile `place` of dimension `d`.
    void lay(box_type& box, std::size_t d, std::size_t place) const noexcept {
        auto const [extent, tile, halo] = at(d);
        std::size_t const origin        = place * tile;
        std::size_t const inner         = std::min(tile, extent - origin);
        bool const        clip          = options_.outside == boundary::clip;
        std::size_t const before        = clip ? std::min(halo, origin) : halo;
        std::size_t const after         = clip ? std::min(halo, extent - origin - inner) : halo;
        box.origin[d]                   = origin;
        box.inner[d]                    = inner;
        box.before[d]                   = before;
        box.extent[d]                   = before + inner + after;
    }

    tile_options<Rank> options_;
    std::size_t        count_[Rank]{};
    std::size_t        size_     = 1;
    std::size_t        elements_ = 1;
};

} // namespace vram
