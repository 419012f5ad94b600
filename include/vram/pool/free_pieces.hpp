// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `free_pieces` are statistics of the free memory of a pool, by the sizes of its pieces.

#include <vram/base/requirements.hpp>

#include <bit> // bit_width
#include <cstddef>

namespace vram {

/// Statistics of the free memory of a pool: reserved bytes that are not live. A plain value.
///
///     free_pieces const now = memory.free_memory();
struct free_pieces {
    std::size_t bytes = 0; ///< sum of the sizes of all free pieces
    std::size_t count = 0; ///< number of free pieces
    /// Size in bytes of the largest free piece. Of virtual memory, only bytes that have physical
    /// memory count.
    std::size_t largest    = 0;
    std::size_t releasable = 0; ///< bytes of the entirely free chunks that `trim` can return
    double      squares    = 0; ///< sum of the squares of all pieces' sizes (for `fragmentation`)
    std::size_t by_size[64]{};  ///< [i]: number of free pieces of 2^i to 2^(i+1) - 1 bytes

    /// Adds `times` pieces of `size` bytes to the statistics.
    constexpr void add(std::size_t size, std::size_t times = 1) noexcept {
        if (size == 0 || times == 0) { return; }
        bytes += size * times;
        count += times;
        largest = size > largest ? size : largest;
        squares +=
            static_cast<double>(size) * static_cast<double>(size) * static_cast<double>(times);
        by_size[std::bit_width(size) - 1] += times;
    }
    /// Adds the statistics of another pool, or of another part of the memory: `largest` becomes the
    /// larger of the two, all other numbers are summed.
    constexpr void add(free_pieces const& more) noexcept {
        bytes += more.bytes;
        count += more.count;
        largest = more.largest > largest ? more.largest : largest;
        releasable += more.releasable;
        squares += more.squares;
        for (std::size_t i = 0; i < 64; ++i) { by_size[i] += more.by_size[i]; }
    }

    friend bool operator==(free_pieces const&, free_pieces const&) = default;
};

} // namespace vram
