// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_tile_source` is a loader's source: each batch is a tile of a volume in pinned memory.

#include <vram/base/core/range_concepts.hpp>
#include <vram/concepts/platform_of.hpp>
#include <vram/data/tile_source.hpp>

#include <array> // array
#include <bit>   // bit_cast
#include <cstddef>
#include <span> // span

namespace vram {

/// A loader's source like `tile_source`, but for a volume in pinned memory. The device copies the
/// tiles directly out of the volume. The volume must not change before the copies are complete.
///
///     pinned_tile_source source{cut, std::span<float const>{pinned, cut.volume()}};
///     source.enqueue({device, source.batch_bytes()}, 17, stream);       // called by a loader
///
/// Failure   The constructor throws `layout_error` if `volume` does not have the number of elements
///           that `cut` requires. With `boundary::constant`, it also throws if the bytes of
///           `outside` are not all equal. `enqueue` throws an error of the platform if a copy is
///           refused.
/// Threads   Several threads may call `enqueue`, each with its own stream.
/// Streams   `enqueue` returns when the copies are enqueued on `copies`.
/// Cost      One copy for each tile inside the volume, and more at the border.
template <class Element, std::size_t Rank>
class pinned_tile_source {
public:
    /// Creates a source that returns the tiles of `volume`, as `cut` divides it. Copies `cut`. The
    /// memory of `volume` is not copied and must outlive the source. With `boundary::constant`,
    /// `outside` is the value of the elements beyond the border.
    pinned_tile_source(tiles<Rank> const& cut, std::span<Element const> volume,
                       Element outside = {})
        : source_{cut, volume, outside}, pattern_{std::bit_cast<bytes_of>(outside)[0]} {
        bool same = true;
        for (std::byte const b : std::bit_cast<bytes_of>(outside)) { same = same && b == pattern_; }
        if (!same && cut.options().outside == boundary::constant) {
            throw layout_error{layout_error::reason::no_pattern, sizeof(Element)};
        }
    }

    /// Returns the number of tiles.
    [[nodiscard]] std::size_t size() const noexcept { return source_.size(); }
    /// Returns an upper bound of the number of bytes of a batch.
    [[nodiscard]] std::size_t batch_bytes() const noexcept { return source_.batch_bytes(); }
    /// Returns the bytes of batch `index`, a tile with its halo. `index` must be less than
    /// `size()`.
    [[nodiscard]] std::size_t batch_bytes(std::size_t index) const {
        return source_.batch_bytes(index);
    }
    /// Returns true if tile `index`, without its halo, has fewer elements than the first tile. A
    /// loader with `last_batch::drop` does not return these tiles.
    [[nodiscard]] bool is_short(std::size_t index) const { return cut().is_short(index); }
    [[nodiscard]] tiles<Rank> const& cut() const noexcept { return source_.cut(); }

    /// Enqueues the copies of tile `index` and its halo to `device` on the stream `copies`. Returns
    /// the size of tile and halo in bytes. If `device` is smaller, enqueues nothing and returns
    /// this size. Returns 0 if there is no tile `index`.
    template <class Stream>
    std::size_t enqueue(std::span<std::byte> device, std::size_t index,
                        Stream const& copies) const {
        using platform = platform_of<Stream>;
        if (index >= size()) { return 0; }
        detail::tile_copies<Rank> const& plan  = source_.copies();
        std::size_t const                bytes = plan.bytes(index);
        if (bytes > device.size()) { return bytes; }
        if (cut().options().outside == boundary::constant && !plan.inside(index)) {
            platform::fill(copies, device.data(), pattern_, bytes);
        }
        plan.gather(index, device.data(), source_.volume().data(),
                    [&](pitched_copy const& c) { platform::copy(copies, c); });
        return bytes;
    }

private:
    using bytes_of = std::array<std::byte, sizeof(Element)>;

    tile_source<Element, Rank> source_;
    std::byte                  pattern_; ///< value of each byte of the elements outside the volume
};

template <std::size_t Rank, std::ranges::contiguous_range Volume>
    requires std::ranges::borrowed_range<Volume>
pinned_tile_source(tiles<Rank>, Volume&&)
    -> pinned_tile_source<std::ranges::range_value_t<Volume>, Rank>;
template <std::size_t Rank, std::ranges::contiguous_range Volume, class Outside>
    requires std::ranges::borrowed_range<Volume>
pinned_tile_source(tiles<Rank>, Volume&&, Outside)
    -> pinned_tile_source<std::ranges::range_value_t<Volume>, Rank>;

} // namespace vram
