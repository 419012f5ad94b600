// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `box_copies` says a box of up to four dimensions as copies that a machine has: rows and slices.

#include <vram/concepts/pitched_copy.hpp> // pitched_copy

#include <cstddef> // size_t, byte
#include <cstring> // memcpy

namespace vram {

/// Where a box lies in an array that is stored row by row, the last dimension together.
template <std::size_t Rank>
struct box_side {
    std::size_t const (&extent)[Rank]; ///< elements of the array
    std::size_t const (&origin)[Rank]; ///< of the box: its first element
};

namespace detail {

/// The dimensions of a box that are left when those that lie together on both sides are one.
template <std::size_t Rank>
struct box_plan {
    struct step { // one dimension: how many, and how far apart in bytes
        std::size_t count = 1;
        std::size_t to    = 0;
        std::size_t from  = 0;
    };
    static constexpr std::size_t most_pitch = 0x7fffffff; ///< bytes, what CUDA has

    box_plan(box_side<Rank> const& to, box_side<Rank> const& from, std::size_t const (&box)[Rank],
             std::size_t element) noexcept
        : width{element} {
        std::size_t to_stride = element, from_stride = element;
        for (std::size_t d = Rank; d-- > 0;) {
            to_begin += to.origin[d] * to_stride;
            from_begin += from.origin[d] * from_stride;
            empty = empty || box[d] == 0;
            if (to_stride == width && from_stride == width) { // and so have all before it
                width *= box[d];
            } else if (box[d] > 1) {
                steps[rank++] = {box[d], to_stride, from_stride};
            }
            to_stride *= to.extent[d];
            from_stride *= from.extent[d];
        }
        apart = steps[0].to > most_pitch || steps[0].from > most_pitch;
    }

    /// The copies of the `left` nearest dimensions.
    template <class Visit>
    void walk(std::byte* to, std::byte const* from, std::size_t left, Visit& visit) const {
        if (left <= (apart ? 0 : 2)) { return visit(copy(to, from, left)); }
        step const& outer = steps[left - 1];
        for (std::size_t i = 0; i < outer.count; ++i) {
            walk(to + i * outer.to, from + i * outer.from, left - 1, visit);
        }
    }
    [[nodiscard]] pitched_copy copy(std::byte* to, std::byte const* from, std::size_t left) const {
        step const rows = left >= 1 ? steps[0] : step{1, width, width};
        step const slices =
            left >= 2 ? steps[1] : step{1, rows.to * rows.count, rows.from * rows.count};
        return {.to         = to,
                .to_pitch   = rows.to,
                .to_slice   = slices.to,
                .from       = from,
                .from_pitch = rows.from,
                .from_slice = slices.from,
                .width      = width,
                .height     = rows.count,
                .depth      = slices.count};
    }

    std::size_t to_begin   = 0;  ///< bytes
    std::size_t from_begin = 0;  ///< bytes
    std::size_t width;           ///< bytes that lie together
    step        steps[Rank + 1]; ///< from the nearest to the farthest, and one not used
    std::size_t rank  = 0;       ///< of those that are used
    bool        empty = false;
    bool        apart = false; ///< rows are farther from each other than a pitch can be
};

} // namespace detail

/// Visits the copies that move a box of elements from one array into another, each as a
/// `pitched_copy`, which holds three dimensions. Rows, or slices, that lie together on both sides
/// are one run and leave dimensions for others.
///
///     std::size_t const origin[] = {z, y, x}, zero[] = {0, 0, 0};
///     box_copies<3>(device, {tile, zero}, host, {volume, origin}, tile, sizeof(float),
///                   [&](pitched_copy const& c) { Platform::copy(stream, c); });
///
/// Failure   none of its own: the box lies in both arrays, and their bytes can be counted
/// Threads   any
/// Cost      one visit up to three dimensions, or where enough lies together; else one for each
///           element of the first. Rows more than 2 GiB apart, which CUDA has no pitch for, are
///           visited one by one
template <std::size_t Rank, class Visit>
    requires(Rank >= 1 && Rank <= 4)
void box_copies(void* to, box_side<Rank> to_side, void const* from, box_side<Rank> from_side,
                std::size_t const (&box)[Rank], std::size_t element, Visit visit) {
    detail::box_plan<Rank> const plan{to_side, from_side, box, element};
    if (plan.empty) { return; }
    plan.walk(static_cast<std::byte*>(to) + plan.to_begin,
              static_cast<std::byte const*>(from) + plan.from_begin, plan.rank, visit);
}

namespace detail {
/// Rows of `Width` bytes each: as many moves, where it is little.
template <std::size_t Width>
void copy_rows(pitched_copy const& c) noexcept {
    for (std::size_t z = 0; z < c.depth; ++z) {
        for (std::size_t y = 0; y < c.height; ++y) {
            std::memcpy(static_cast<std::byte*>(c.to) + z * c.to_slice + y * c.to_pitch,
                        static_cast<std::byte const*>(c.from) + z * c.from_slice + y * c.from_pitch,
                        Width != 0 ? Width : c.width);
        }
    }
}
} // namespace detail

/// Does such a copy, on the host and now. Single elements, as halos beyond a border are made of,
/// cost no call each.
inline void copy_box(pitched_copy const& c) noexcept {
    switch (c.width) {
    case 1: return detail::copy_rows<1>(c);
    case 2: return detail::copy_rows<2>(c);
    case 4: return detail::copy_rows<4>(c);
    case 8: return detail::copy_rows<8>(c);
    default: return detail::copy_rows<0>(c);
    }
}

} // namespace vram
