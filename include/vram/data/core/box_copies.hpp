// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `box_copies` expresses a box of up to four dimensions as copies of rows and slices.

#include <vram/concepts/pitched_copy.hpp>

#include <cstddef>
#include <cstring> // memcpy

namespace vram {
namespace detail {

/// The source or the target array of a copy, and the position in this array of the copied box (a
/// rectangular part). The array is stored row by row: its last dimension is contiguous.
template <std::size_t Rank>
struct box_side {
    std::size_t const (&extent)[Rank]; ///< number of elements of the array in each dimension
    std::size_t const (&origin)[Rank]; ///< index of the copied box's first element in the array
};

/// Divides a box (a rectangular part of an array) into runs, to copy it from a source array to a
/// target array. Each run has `width` bytes and is contiguous in both arrays. `steps` describes
/// nested loops over the runs, one loop for each remaining dimension.
template <std::size_t Rank>
struct box_plan {
    // One dimension of the copied box: `count` elements. They are `to` bytes apart in the target
    // array and `from` bytes apart in the source array.
    struct step {
        std::size_t count = 1;
        std::size_t to    = 0;
        std::size_t from  = 0;
    };
    /// Largest pitch (bytes between two rows) of CUDA.
    static constexpr std::size_t most_pitch = 0x7fffffff;

    box_plan(box_side<Rank> const& to, box_side<Rank> const& from, std::size_t const (&box)[Rank],
             std::size_t element) noexcept
        : width{element} {
        std::size_t to_stride = element, from_stride = element;
        for (std::size_t d = Rank; d-- > 0;) {
            to_begin += to.origin[d] * to_stride;
            from_begin += from.origin[d] * from_stride;
            empty = empty || box[d] == 0;
            // Merges the runs of `width` bytes along dimension `d` into one run if they adjoin each
            // other, both in the source array and in the target array.
            if (to_stride == width && from_stride == width) {
                width *= box[d];
            } else if (box[d] > 1) {
                steps[rank++] = {box[d], to_stride, from_stride};
            }
            to_stride *= to.extent[d];
            from_stride *= from.extent[d];
        }
        apart = steps[0].to > most_pitch || steps[0].from > most_pitch;
    }

    /// Calls `visit(pitched_copy)` for each copy of a part of the box. The part begins at `from` in
    /// the source array and at `to` in the target array. It has the runs of the loops `steps[0]` to
    /// `steps[left - 1]`. If `left` is 0, the part is one run of `width` bytes.
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

    std::size_t to_begin   = 0; ///< offset in bytes of the copied box in the target array
    std::size_t from_begin = 0; ///< offset in bytes of the copied box in the source array
    /// Number of bytes of one run, which is contiguous in the source and in the target array.
    std::size_t width;
    /// The loops over the runs, one for each dimension, the innermost first. A dimension needs no
    /// loop if it has one element, or if each run covers all of it.
    step        steps[Rank + 1];
    std::size_t rank  = 0; ///< number of entries of `steps` that are set
    bool        empty = false;
    /// True if rows are more than `most_pitch` bytes apart, which one CUDA copy cannot express.
    /// Each copy then moves a single run of `width` bytes.
    bool apart = false;
};

/// Calls `visit(pitched_copy)` for each copy that is needed to move a box (a rectangular part) of
/// elements from one array into another. Each copy has up to three dimensions.
///
///     std::size_t const origin[] = {z, y, x}, zero[] = {0, 0, 0};
///     box_copies<3>(device, {tile, zero}, host, {volume, origin}, tile, sizeof(float),
///                   [&](pitched_copy const& c) { Platform::copy(stream, c); });
///
/// Failure   The box must lie in both arrays.
/// Cost      One visit for up to three dimensions, unless rows are more than 2 GiB apart.
template <std::size_t Rank, class Visit>
    requires(Rank >= 1 && Rank <= 4)
void box_copies(void* to, box_side<Rank> to_side, void const* from, box_side<Rank> from_side,
                std::size_t const (&box)[Rank], std::size_t element, Visit visit) {
    detail::box_plan<Rank> const plan{to_side, from_side, box, element};
    if (plan.empty) { return; }
    plan.walk(static_cast<std::byte*>(to) + plan.to_begin,
              static_cast<std::byte const*>(from) + plan.from_begin, plan.rank, visit);
}

/// Executes the copy `c` between two host arrays. `Width` is the number of bytes of a row if known
/// at compile time, otherwise 0.
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

/// Executes the copy `c` between two host arrays on the calling thread.
inline void copy_box(pitched_copy const& c) noexcept {
    switch (c.width) {
    case 1: return detail::copy_rows<1>(c);
    case 2: return detail::copy_rows<2>(c);
    case 4: return detail::copy_rows<4>(c);
    case 8: return detail::copy_rows<8>(c);
    default: return detail::copy_rows<0>(c);
    }
}

} // namespace detail
} // namespace vram
