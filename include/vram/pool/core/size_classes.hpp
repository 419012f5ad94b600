// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `size_classes` is the list of block sizes to which `binned` rounds requests up.

#include <vram/base/requirements.hpp>

#include <bit> // bit_width
#include <cstddef>

namespace vram {
namespace detail {

/// Four block sizes for every power of two: 256, 512, 768, 1024; 1280, 1536, 1792, 2048; 2560, ...
/// (the size groups of jemalloc). Beyond 1 KiB, rounding loses at most a fifth of a block.
struct size_classes {
    /// Bytes of the smallest size class. All other sizes are multiples of it.
    static constexpr std::size_t granule = 256;

    /// Returns the index of the smallest size class that holds `bytes` (from 1 to 2^56).
    [[nodiscard]] static constexpr std::size_t of(std::size_t bytes) noexcept {
        // Number of 256-byte units, rounded up, minus one.
        std::size_t const n = (bytes - 1) / granule;
        if (n < 4) { return n; }
        auto const level = static_cast<std::size_t>(std::bit_width(n)) - 2;
        return 4 * level + (n >> (level - 1)) - 4;
    }
    /// Returns the block size of a size class.
    [[nodiscard]] static constexpr std::size_t bytes(std::size_t index) noexcept {
        std::size_t const level = index / 4, step = index % 4;
        return level == 0 ? (step + 1) * granule : ((step + 5) * granule) << (level - 1);
    }
    /// Returns the index of the smallest size class that holds `bytes` and has a multiple of
    /// `alignment` as block size: then all blocks of a chunk are aligned.
    [[nodiscard]] static constexpr std::size_t of(std::size_t bytes,
                                                  std::size_t alignment) noexcept {
        std::size_t index = of(bytes > alignment ? bytes : alignment);
        while ((size_classes::bytes(index) & (alignment - 1)) != 0) {
            ++index;
        } // at most three times
        return index;
    }
};

static_assert(size_classes::bytes(size_classes::of(1)) == 256);
static_assert(size_classes::bytes(size_classes::of(1025)) == 1280);

} // namespace detail
} // namespace vram
