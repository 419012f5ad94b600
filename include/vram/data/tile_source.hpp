// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tile_source` is a loader's source: each batch is a tile, with its halo, of a volume.

#include <vram/base/core/range_concepts.hpp>
#include <vram/data/core/tile_copies.hpp>
#include <vram/data/layout_error.hpp>

#include <cstddef>
#include <cstring>     // memcpy
#include <limits>      // numeric_limits
#include <span>        // span
#include <stop_token>  // stop_token
#include <type_traits> // is_trivially_copyable_v, remove_const_t

namespace vram {

/// A loader's source for a volume (an array of up to four dimensions) in host memory. Each batch is
/// one tile of the volume with its halo (the elements around the tile), stored row by row without
/// gaps.
///
///     tiles<3> const cut{{.extent = {900, 512, 512}, .tile = {64, 64, 64}, .halo = {2, 2, 2}}};
///     tile_source source{cut, volume};                   // a vector, a span, a mapped file's span
///     for (auto& b : loader{source, stream}) {
///         blur(stream, b.span<float>(), cut[b.source_index()]);
///     }
///
/// Failure   The constructor throws `layout_error` if `volume` does not have the number of elements
///           that `cut` requires, or if the number of bytes of a batch would overflow.
/// Threads   Any number of threads may call `fill`; the volume must not change meanwhile.
/// Cost      One memcpy for each row of the tile, and more at the border.
template <class Element, std::size_t Rank>
    requires std::is_trivially_copyable_v<Element>
class tile_source {
public:
    /// Creates a source that returns the tiles of `volume`, as `cut` divides it. Copies `cut`. The
    /// memory of `volume` is not copied and must outlive the source. With `boundary::constant`,
    /// `outside` is the value of the elements beyond the border.
    tile_source(tiles<Rank> const& cut, std::span<Element const> volume, Element outside = {})
        : copies_{cut, sizeof(Element)}, volume_{volume}, outside_{outside} {
        using why                  = layout_error::reason;
        constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / sizeof(Element);
        if (volume.size() != cut.volume()) {
            throw layout_error{why::wrong_size, volume.size_bytes(),
                               cut.volume() * sizeof(Element)};
        }
        if (cut.elements() > most) { throw layout_error{why::too_large, cut.elements(), most}; }
    }

    /// Returns the number of tiles.
    [[nodiscard]] std::size_t size() const noexcept { return cut().size(); }
    /// Returns an upper bound of the number of bytes of a batch.
    [[nodiscard]] std::size_t batch_bytes() const noexcept {
        return cut().elements() * sizeof(Element);
    }
    /// Returns the bytes of batch `index`, a tile with its halo. `index` must be less than
    /// `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const { return copies_.bytes(index); }
    /// Returns true if tile `index`, without its halo, has fewer elements than the first tile. A
    /// loader with `last_batch::drop` does not return these tiles.
    [[nodiscard]] bool is_short(std::size_t index) const { return cut().is_short(index); }
    [[nodiscard]] tiles<Rank> const& cut() const noexcept { return copies_.cut(); }
    /// Returns the object that computes the copies between the volume and a tile with its halo.
    [[nodiscard]] detail::tile_copies<Rank> const& copies() const noexcept { return copies_; }
    [[nodiscard]] std::span<Element const>         volume() const noexcept { return volume_; }
    /// Returns the value of elements beyond the border with `boundary::constant`.
    [[nodiscard]] Element const& outside() const noexcept { return outside_; }

    /// Copies tile `index` and its halo to `to`. Returns the size of tile and halo in bytes. If
    /// `to` is smaller, copies nothing and returns this size. Returns 0 after the last tile.
    std::size_t fill(std::span<std::byte> to, std::size_t index,
                     std::stop_token const& = {}) const {
        if (index >= size()) { return 0; }
        std::size_t const bytes = copies_.bytes(index);
        if (bytes > to.size()) { return bytes; }
        if (cut().options().outside == boundary::constant && !copies_.inside(index)) {
            // Copies the member to a local variable, so that the loop need not read it each time.
            Element const value = outside_;
            for (std::size_t at = 0; at < bytes; at += sizeof(Element)) {
                std::memcpy(to.data() + at, &value, sizeof(Element));
            }
        }
        copies_.gather(index, to.data(), volume_.data(), detail::copy_box);
        return bytes;
    }

private:
    detail::tile_copies<Rank> copies_;
    std::span<Element const>  volume_;
    Element                   outside_;
};

template <std::size_t Rank, std::ranges::contiguous_range Volume>
    requires std::ranges::borrowed_range<Volume>
tile_source(tiles<Rank>, Volume&&) -> tile_source<std::ranges::range_value_t<Volume>, Rank>;
template <std::size_t Rank, std::ranges::contiguous_range Volume, class Outside>
    requires std::ranges::borrowed_range<Volume>
tile_source(tiles<Rank>, Volume&&, Outside)
    -> tile_source<std::ranges::range_value_t<Volume>, Rank>;

} // namespace vram
