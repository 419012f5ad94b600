// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fragmentation` measures the unusable part of a pool's memory with five figures.

#include <vram/base/memory_usage.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef>

namespace vram {

/// Five figures that measure the fragmentation of a pool; each answers a different question. Shares
/// are from 0, the best, to 1, and are 0 if the whole is empty.
///
///     fragmentation const f{memory.usage(), memory.free_memory()};
struct fragmentation {
    /// The share of the peak reserved bytes beyond the peak live bytes: the memory that the pool
    /// costs a program. It is one minus the utilisation of the literature (GMLake, STAlloc).
    double unused = 0;
    /// The share of the free memory that is not in the largest free piece: tells if a large request
    /// can be met (BFC, the allocator of TensorFlow).
    double scattered = 0;
    /// The sum of the squares of the free pieces' sizes, divided by the square of the reserved
    /// bytes. Few large holes count more than many small ones (PyTorch's memory viewer).
    double holes = 0;
    /// Free bytes in chunks that contain a live block, or a block that is kept for a captured graph
    /// (graph-retained). `trim` cannot return them, except pages of virtual memory (PyTorch's
    /// inactive_split_bytes).
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
