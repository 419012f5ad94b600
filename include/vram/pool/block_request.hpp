// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_request` is what somebody wants from a pool, and where it will be used first.

#include <vram/base/align.hpp> // align, default_alignment
#include <vram/pool/bins.hpp>  // bins

#include <cstddef> // size_t

namespace vram {

/// A request, rounded once. `on` is null where the memory is to be used at once, by anybody.
template <class Stream>
struct block_request {
    std::size_t   asked     = 0;
    std::size_t   alignment = default_alignment;
    Stream const* on        = nullptr;
    std::size_t   bytes     = align(asked, bins::granule); ///< what it takes up

    /// Whether any pool could ever have such a block.
    [[nodiscard]] bool possible() const noexcept { return bytes <= bins::largest; }
    /// What an upstream is asked for, so that the first byte of a chunk will do.
    [[nodiscard]] std::size_t chunk_alignment() const noexcept {
        return alignment > bins::granule ? alignment : bins::granule;
    }
};

} // namespace vram
