// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_extension` is the growth of a chunk at its end, which a thread has begun.

#include <vram/base/align.hpp> // align, saturating_add, unsatisfiable
#include <vram/pool/core/block_chunks.hpp>
#include <vram/pool/core/block_places.hpp>
#include <vram/pool/core/free_blocks.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// Default for the parameter `from` of `begin_growth`: a request may begin at the start of the last
/// block `b` of a chunk.
struct front_of {
    [[nodiscard]] std::uintptr_t operator()(block const& b) const noexcept { return b.address; }
};

/// The plan for the growth of one chunk at its end by at least `by` bytes.
///
/// Threads   One thread at a time.
struct chunk_extension {
    void*       base  = nullptr; ///< address of the chunk, or null if no chunk can grow
    std::size_t bytes = 0;
    std::size_t by    = 0;

    /// Chooses the chunk that needs the fewest more bytes at its end for a request. Marks the chunk
    /// busy until `end_growth`. In the last block `b` of the chunk, the request begins at `from(b)`
    /// or above. `price(uses)` tells if the asking stream may use memory of `b`.
    template <class Price, class From>
    [[nodiscard]] static chunk_extension begin(free_blocks const& free, block_chunks& chunks,
                                               std::size_t bytes, std::size_t alignment,
                                               Price const& price, From const& from) noexcept {
        chunk_extension      least;
        block_chunks::chunk* found = nullptr;
        free.for_each_tail([&](block const* tail) {
            block_chunks::chunk& c     = chunks.around(tail);
            std::uintptr_t const idle  = block_places::usable_from(*tail, price);
            std::uintptr_t const there = from(*tail);
            std::uintptr_t const start = align(idle > there ? idle : there, alignment);
            std::uintptr_t const end   = saturating_add(start, bytes);
            if (c.busy || end == unsatisfiable || end <= tail->end()) { return; }
            std::size_t const more = end - tail->end();
            if (found != nullptr && more >= least.by) { return; }
            found = &c;
            least = {c.base, c.bytes, more};
        });
        if (found != nullptr) { found->busy = true; }
        return least;
    }
};

} // namespace detail
} // namespace vram
