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

/// A pending use of freed memory: one stream may still access the addresses [begin, end). The use
/// is over once the stream with the index `slot` has completed the part `epoch` of its work.
struct tag {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint64_t  epoch;
    std::size_t    slot;

    /// Value of `epoch` for memory that a captured graph may use. This epoch is never complete: the
    /// use lasts until `forget_captures` of the resource.
    static constexpr std::uint64_t captured = ~std::uint64_t{0};

    [[nodiscard]] constexpr bool overlaps(std::uintptr_t from, std::uintptr_t to) const noexcept {
        return begin < to && from < end;
    }
    /// Returns true if two pending uses may be merged into one: both are by the same stream, and
    /// either both or neither are by a captured graph.
    [[nodiscard]] static constexpr bool of_one_kind(tag const& a, tag const& b) noexcept {
        return a.slot == b.slot && (a.epoch == captured) == (b.epoch == captured);
    }
    friend bool operator==(tag const&, tag const&) = default;
};

} // namespace detail
} // namespace vram
