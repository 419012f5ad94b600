// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tiles` divides a volume of one to four dimensions into tiles with a halo.

#include <vram/base/contract.hpp>        // expects
#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/data/boundary.hpp>
#include <vram/data/layout_error.hpp>

#include <cstddef>
#include <limits> // numeric_limits

namespace vram {

/// Selects the order of the tiles of a volume.
enum class tile_order {
    last_fastest,  ///< row-major order of the tiles: the last dimension varies fastest
    first_fastest, ///< column-major order of the tiles: the first dimension varies fastest
    /// Like `last_fastest`, but every second row and every second slice of tiles is visited
    /// backwards. Consecutive tiles are then neighbours.
    snake,
};

/// Options of `tiles`. Dimensions are ordered as in C arrays: the last one is contiguous in memory.
template <std::size_t Rank>
struct tile_options {
    std::size_t extent[Rank]{}; ///< number of elements of the volume in each dimension
    /// Number of elements of a tile in each dimension. Tiles at the volume's end may have fewer.
    std::size_t tile[Rank]{};
    /// Width of the halo (the elements around a tile that its batch also contains) in each
    /// dimension. It is the number of elements on each side of the tile.
    std::size_t halo[Rank]{};
    /// Values of those elements of a halo (the elements around a tile) that are beyond the border
    /// of the volume. With `boundary::clip`, the halo ends at the border.
    boundary outside = boundary::clip;
    /// Order of the tiles and their batches.
    tile_order order = tile_order::last_fastest;
};

/// One tile of a volume: its position, and the layout of its batch. The batch contains the tile and
/// its halo (the elements around it). A `tile_box` may be an argument of a kernel.
template <std::size_t Rank>
struct tile_box {
    std::size_t origin[Rank]; ///< index of the tile's first element in the volume, without the halo
    std::size_t inner[Rank];  ///< number of elements of the tile in each dimension
    /// Number of elements of the halo before the tile's first element, in each dimension.
    std::size_t before[Rank];
    std::size_t extent[Rank]; ///< number of elements of the batch (tile and halo) in each dimension

    friend bool operator==(tile_box const&, tile_box const&) = default;
};

/// A volume (an array of up to four dimensions) divided into tiles. The tiles cover each element
/// once. Only their halos (the elements around each tile) overlap.
///
///     tiles<3> const cut{{.extent = {900, 512, 512}, .tile = {64, 64, 64}, .halo = {2, 2, 2},
///                         .outside = boundary::mirror}};
///     cut.size();              // 15 * 8 * 8
///     cut[17].origin;          // first element of the tile of batch 17
///     cut.index_of({100, 0, 511});   // the batch with this element in its tile
///
/// A batch contains a tile with its halo, stored row by row without gaps. Tiles end at the end of
/// the volume.
///
/// Failure   The constructor throws `layout_error` if a tile has no elements, or if the volume, a
///           halo or a batch has too many elements.
/// Threads   Any thread may use a copy; the object is a value.
/// Cost      A query costs a division for each dimension.
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
            elements_ *= detail::larger_of<std::size_t>(seen, 1);
        }
    }

    /// Returns the number of tiles.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Returns the number of tiles along dimension `d`. The first dimension has the index 0.
    [[nodiscard]] std::size_t count(std::size_t d) const noexcept { return count_[d]; }
    /// Returns an upper bound of the number of elements of a batch (a tile with its halo), at least
    /// 1.
    [[nodiscard]] std::size_t elements() const noexcept { return elements_; }
    /// Returns the number of elements of the volume: the product of its extents.
    [[nodiscard]] std::size_t volume() const noexcept { return product(options_.extent); }
    [[nodiscard]] tile_options<Rank> const& options() const noexcept { return options_; }

    /// `elements` returns the number of elements of the tile `box` with its halo. `inner_elements`
    /// returns the number without the halo.
    [[nodiscard]] static constexpr std::size_t elements(box_type const& box) noexcept {
        return product(box.extent);
    }
    [[nodiscard]] static constexpr std::size_t inner_elements(box_type const& box) noexcept {
        return product(box.inner);
    }

    /// Returns the tile of batch `index`, which must be less than `size()`.
    [[nodiscard]] box_type operator[](std::size_t index) const {
        expects(index < size_, "tiles: the index must be less than size()");
        box_type    box{};
        std::size_t left = index;
        bool const  last = options_.order != tile_order::first_fastest;
        // Splits `index` into the position of the tile along each dimension (`place`). Begins with
        // the dimension that varies fastest in the order of the tiles.
        for (std::size_t i = 0; i < Rank; ++i) {
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

    /// Returns true if tile `index`, without its halo, has fewer elements than tile 0, because the
    /// volume ends there.
    [[nodiscard]] bool is_short(std::size_t index) const {
        box_type const box = (*this)[index];
        for (std::size_t d = 0; d < Rank; ++d) {
            if (box.inner[d] < detail::smaller_of(options_.tile[d], options_.extent[d])) {
                return true;
            }
        }
        return false;
    }

    /// Returns the index of the tile that contains the element at `place`, which must be inside the
    /// volume.
    [[nodiscard]] std::size_t index_of(std::size_t const (&place)[Rank]) const {
        std::size_t index = 0;
        bool const  last  = options_.order != tile_order::first_fastest;
        // Combines the positions of the tile along all dimensions into `index`. Begins with the
        // dimension that varies slowest in the order of the tiles.
        for (std::size_t i = 0; i < Rank; ++i) {
            std::size_t const d = last ? i : Rank - 1 - i;
            expects(place[d] < options_.extent[d], "tiles: the place must be inside the volume");
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
    /// Returns an upper bound of the number of elements of a tile with its halo in dimension `d`.
    [[nodiscard]] std::size_t largest(std::size_t d) const noexcept {
        auto const [extent, tile, halo] = at(d);
        if (extent == 0) { return 0; }
        if (options_.outside != boundary::clip) {
            return detail::smaller_of(tile, extent) + 2 * halo;
        }
        return tile >= extent ? extent : detail::smaller_of(extent, tile + 2 * halo);
    }
    /// Writes the origin and the size of a tile in dimension `d` to `box`. `place`: position of the
    /// tile, which is the number of tiles before it in this dimension.
    void lay(box_type& box, std::size_t d, std::size_t place) const noexcept {
        auto const [extent, tile, halo] = at(d);
        std::size_t const origin        = place * tile;
        std::size_t const inner         = detail::smaller_of(tile, extent - origin);
        bool const        clip          = options_.outside == boundary::clip;
        std::size_t const before        = clip ? detail::smaller_of(halo, origin) : halo;
        std::size_t const after = clip ? detail::smaller_of(halo, extent - origin - inner) : halo;
        box.origin[d]           = origin;
        box.inner[d]            = inner;
        box.before[d]           = before;
        box.extent[d]           = before + inner + after;
    }

    tile_options<Rank> options_;
    std::size_t        count_[Rank]{};
    std::size_t        size_     = 1;
    std::size_t        elements_ = 1;
};

/// States whether a block of memory contains a tile alone or also its halo (the elements around the
/// tile). The elements are stored row by row without gaps.
enum class tile_part {
    whole, ///< the memory contains the tile and its halo
    inner, ///< the memory contains the tile without its halo
};

} // namespace vram
