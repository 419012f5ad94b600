// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `fragmentation` measures the unusable part of a pool's memory in five figures.

#include <vram/base/memory_usage.hpp> // memory_usage
#include <vram/pool/free_pieces.hpp>  // free_pieces

#include <cstddef> // size_t

namespace vram {

/// Five figures, because they answer different questions. Shares are from 0, the best, to 1; where
/// there is nothing to share they are 0.
///
///     fragmentation const f{memory.usage(), memory.free_memory()};
struct fragmentation {
    /// Of the most that was held, how much was more than the most that was out: what the pool costs
    /// a program. One less the utilisation of the literature (GMLake, STAlloc).
    double unused = 0;
    /// Of what is free, how much is not in the largest piece: whether a large request can be met
    /// (BFC, the allocator of TensorFlow).
    double scattered = 0;
    /// The squares of the free pieces' sizes over the square of what is held: few large holes count
    /// more than many small ones (the viewer of PyTorch's memory snapshots).
    double holes = 0;
    /// Free bytes in chunks that something is out of: `trim` cannot give them back (PyTorch's
    /// inactive_split_bytes).
    std::size_t stranded = 0;
    /// Bytes that are out because sizes are rounded, and nobody asked for.
    std::size_t rounding = 0;

    constexpr fragmentation() = default;
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
    /// What `part` leaves of `whole`.
    static constexpr double share(std::size_t part, std::size_t whole) noexcept {
        if (part >= whole) { return 0; }
        return static_cast<double>(whole - part) / static_cast<double>(whole);
    }
};

} // namespace vram
