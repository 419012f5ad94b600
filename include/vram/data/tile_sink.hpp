// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tile_sink` writes the results of tiles into a volume in memory.

#include <vram/base/core/range_concepts.hpp>
#include <vram/concepts/platform_of.hpp>
#include <vram/data/core/tile_copies.hpp> // tile_copies, tile_part
#include <vram/data/layout_error.hpp>

#include <cstddef>
#include <span>        // span
#include <type_traits> // is_trivially_copyable_v, type_identity_t

namespace vram {

/// Writes the results that were computed for tiles (parts of a volume) into a volume. This is the
/// reverse of a `tile_source`. The halo (the elements around a tile) is not written. The tiles may
/// come in any order.
///
///     tile_sink results{cut, result};                      // each batch has a tile and its halo
///     tile_sink results{cut, result, tile_part::inner};    // each batch has a tile without halo
///     results.enqueue(batch.span<float>(), batch.source_index(), stream);   // from the device
///     results.put(patch, index);                                            // from the host
///
/// Failure   Throws `layout_error{wrong_size}` if the volume or a tile has the wrong number of
///           elements.
/// Threads   Several threads may write different tiles.
/// Streams   The tile is in the volume when the copies of `enqueue` on the stream are complete.
/// Cost      Usually one copy for `enqueue`, and one memcpy for each row for `put`.
template <class Element, std::size_t Rank>
    requires std::is_trivially_copyable_v<Element>
class tile_sink {
public:
    /// Creates a sink that writes tiles into `volume`. The memory of `volume` must outlive the
    /// sink, but `cut` is copied. `part` states whether each result contains the halo of its tile.
    tile_sink(tiles<Rank> const& cut, std::span<Element> volume, tile_part part = tile_part::whole)
        : copies_{cut, sizeof(Element)}, volume_{volume}, part_{part} {
        if (volume.size() != cut.volume()) {
            throw layout_error{layout_error::reason::wrong_size, volume.size_bytes(),
                               cut.volume() * sizeof(Element)};
        }
    }

    /// Returns the number of tiles.
    [[nodiscard]] std::size_t        size() const noexcept { return cut().size(); }
    [[nodiscard]] tiles<Rank> const& cut() const noexcept { return copies_.cut(); }

    /// Copies tile `index` from host memory into the volume. Throws `layout_error{wrong_size}` if
    /// `from` does not have as many elements as the tile (with its halo for `tile_part::whole`).
    void put(std::span<std::type_identity_t<Element> const> from, std::size_t index) const {
        demand(from, index);
        copies_.scatter(index, from.data(), part_, volume_.data(), detail::copy_box);
    }
    /// Enqueues the copies of tile `index` from the memory `device` into the volume. Throws
    /// `layout_error{wrong_size}` if `device` does not have as many elements as the tile (with its
    /// halo for `tile_part::whole`).
    template <class Stream>
    void enqueue(std::span<std::type_identity_t<Element> const> device, std::size_t index,
                 Stream const& stream) const {
        demand(device, index);
        copies_.scatter(index, device.data(), part_, volume_.data(),
                        [&](pitched_copy const& c) { platform_of<Stream>::copy(stream, c); });
    }

private:
    void demand(std::span<Element const> from, std::size_t index) const {
        std::size_t const bytes = copies_.bytes(index, part_);
        if (from.size_bytes() != bytes) {
            throw layout_error{layout_error::reason::wrong_size, from.size_bytes(), bytes};
        }
    }

    detail::tile_copies<Rank> copies_;
    std::span<Element>        volume_;
    tile_part                 part_;
};

template <std::size_t Rank, std::ranges::contiguous_range Volume, class... Part>
    requires std::ranges::borrowed_range<Volume>
tile_sink(tiles<Rank>, Volume&&, Part...) -> tile_sink<std::ranges::range_value_t<Volume>, Rank>;

} // namespace vram
