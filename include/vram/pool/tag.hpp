// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `tag` says which stream may still be using a piece of free memory, and up to when.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t

namespace vram {

/// A piece [begin, end) of free memory that the stream in `slot` may use until it has passed
/// `epoch`.
///
/// A pool numbers the streams it meets (slots) and counts, for each, the events it records there
/// (epochs): what was freed in epoch e is done when the stream's e-th event is.
struct tag {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint64_t  epoch;
    std::size_t    slot;

    /// The epoch of memory that a graph being captured has used: it never ends by itself.
    static constexpr std::uint64_t captured = ~std::uint64_t{0};

    [[nodiscard]] constexpr bool overlaps(std::uintptr_t from, std::uintptr_t to) const noexcept {
        return begin < to && from < end;
    }
    /// Whether two tags may become one. What a graph keeps is not what its stream is done with: the
    /// one ends when captures are forgotten, the other when the stream has passed it.
    [[nodiscard]] static constexpr bool of_one_kind(tag const& a, tag const& b) noexcept {
        return a.slot == b.slot && (a.epoch == captured) == (b.epoch == captured);
    }
    friend bool operator==(tag const&, tag const&) = default;
};

} // namespace vram
