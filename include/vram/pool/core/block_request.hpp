// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_request` is a request to a pool: its size, its alignment and its stream.

#include <vram/base/align.hpp> // align, default_alignment
#include <vram/pool/core/bins.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// An allocation request with its rounded size. If `on` is null, any stream must be able to use the
/// memory without a wait.
template <class Stream>
struct block_request {
    std::size_t   asked     = 0;
    std::size_t   alignment = default_alignment;
    Stream const* on        = nullptr;
    /// The size of the block: `asked` rounded up to a multiple of 256 bytes.
    std::size_t bytes = align(asked, bins::granule);

    /// Returns false if the block is larger than any that the free lists can hold: the pool refuses
    /// such requests.
    [[nodiscard]] bool possible() const noexcept { return bytes <= bins::largest; }
    /// Returns the alignment that a new chunk needs so that its first byte can begin the block: the
    /// requested one, or 256 bytes if that is larger.
    [[nodiscard]] std::size_t chunk_alignment() const noexcept {
        return alignment > bins::granule ? alignment : bins::granule;
    }
};

} // namespace detail
} // namespace vram
