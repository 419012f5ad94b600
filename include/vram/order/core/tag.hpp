// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tag` is a pending use: one stream may still use a piece of free memory until an epoch is
/// complete.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A pending use: the stream with the index `slot` may access the free memory [begin, end) until it
/// has completed the epoch `epoch`.
///
/// A pool gives each stream an index (slot), and divides its work into numbered epochs by the
/// events that it records. Memory freed in an epoch is unused once the event that ends the epoch is
/// complete.
struct tag {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint64_t  epoch;
    std::size_t    slot;

    /// The epoch (part of the stream's work) of memory that is kept for a captured graph. It never
    /// completes by itself: `forget_captures` ends it.
    static constexpr std::uint64_t captured = ~std::uint64_t{0};

    [[nodiscard]] constexpr bool overlaps(std::uintptr_t from, std::uintptr_t to) const noexcept {
        return begin < to && from < end;
    }
    /// Returns true if two pending uses (a stream may still access freed memory) may be merged into
    /// one: they have the same stream, and both or neither are kept for a captured graph. A use
    /// that is kept ends with `forget_captures`, another one when its stream completes the epoch
    /// (part of the stream's work).
    [[nodiscard]] static constexpr bool of_one_kind(tag const& a, tag const& b) noexcept {
        return a.slot == b.slot && (a.epoch == captured) == (b.epoch == captured);
    }
    friend bool operator==(tag const&, tag const&) = default;
};

} // namespace detail
} // namespace vram
