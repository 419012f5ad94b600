// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fragmentation` measures the unusable part of a pool's memory with five figures.

#include <vram/base/memory_usage.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef>

namespace vram {

/// Measures the fragmentation of a pool. `unused` and `scattered` range from 0 (best) to 1.
///
///     fragmentation const f{memory.usage(), memory.free_memory()};
struct fragmentation {
    /// 1 - peak live bytes / peak reserved bytes. The papers of GMLake and STAlloc report the
    /// quotient of these two peaks, and call it utilisation.
    double unused = 0;
    /// The share of the free memory outside the largest free piece, as in TensorFlow's BFC
    /// allocator.
    double scattered = 0;
    /// The sum of the squares of the sizes of all free pieces, divided by the square of the
    /// reserved bytes, as in PyTorch's memory viewer. It is 1 if all reserved memory is one free
    /// piece, and 0 if no memory is free.
    double holes = 0;
    /// Free bytes in chunks with a block that is live or kept for a captured graph: `trim` cannot
    /// return such chunks (PyTorch's inactive_split_bytes).
    std::size_t stranded = 0;
    /// Live bytes beyond the requested ones, because sizes are rounded up.
    std::size_t rounding = 0;

    constexpr fragmentation() = default;
    /// Computes the figures from the usage and the free memory of a pool.
    constexpr fragmentation(memory_usage const& u, free_pieces const& f) noexcept
        : unused{share(u.peak_live, u.peak_reserved)},
          scattered{share(f.largest, f.bytes)},
          stranded{f.bytes > f.releasable ? f.bytes - f.releasable : 0},
          rounding{u.live > u.requested ? u.live - u.requested : 0} {
        if (u.reserved == 0) { return; }
        auto const held = static_cast<double>(u.reserved);
        holes           = f.squares / (held * held);
    }

    friend bool operator==(fragmentation const&, fragmentation const&) = default;

private:
    /// Returns (`whole` - `part`) / `whole`, or 0 if `part` is not less than `whole`.
    static constexpr double share(std::size_t part, std::size_t whole) noexcept {
        if (part >= whole) { return 0; }
        return static_cast<double>(whole - part) / static_cast<double>(whole);
    }
};

} // namespace vram
