// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_survey` walks over all blocks of a pool, for its usage, its free memory and its errors.

#include <vram/base/error.hpp>
#include <vram/base/memory_usage.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/pool/core/block_heaps.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// Measures the blocks of a pool: its usage, its free memory and its leaks. Cached blocks (freed,
/// and kept for the next request of their size) count as free, each as its own block. `InPlace`:
/// chunks can grow at their ends.
///
/// Threads   One thread at a time.
/// Cost      A walk over all blocks.
template <bool InPlace>
class block_survey {
public:
    explicit block_survey(block_heaps<InPlace> const& heaps) noexcept : heaps_{heaps} {}

    /// Sets four members of `now`, which must be 0 before: the reserved, requested and pending
    /// bytes, and the size of the largest free block. `behind(block)` returns how many bytes of a
    /// block have physical memory. `is_complete(use)` returns true if a pending use has ended.
    template <class Behind, class IsComplete>
    void measure(memory_usage& now, Behind const& behind, IsComplete const& is_complete) const {
        now.reserved = heaps_.reserved();
        heaps_.for_each([&](block const& b) {
            if (b.now == block::state::live) { now.requested += b.bytes - b.slack; }
            if (!is_unused(b)) { return; }
            std::size_t const there = behind(b);
            if (there > now.largest_free) { now.largest_free = there; }
            std::size_t pending = 0;
            tags const  held    = b.waits_for();
            for (tag const& t : held) {
                if (!is_complete(t)) { pending += t.end - t.begin; }
            }
            now.pending += pending < there ? pending : there;
        });
    }
    /// Returns the sizes of the free and cached blocks. Only bytes with physical memory count:
    /// `behind(block)` returns the number of these bytes.
    template <class Behind>
    [[nodiscard]] free_pieces free_memory(Behind const& behind) const {
        free_pieces now;
        heaps_.for_each([&](block const& b) {
            if (is_unused(b)) { now.add(behind(b)); }
        });
        heaps_.for_each_chunk([&](block_heap::chunk const& c) {
            now.releasable += goes_back(c) ? behind(*c.first) : 0;
        });
        return now;
    }
    /// Returns the error for a leak of `bytes`, with the number of live blocks and the address of
    /// the first.
    [[nodiscard]] error leak(std::size_t bytes) const noexcept {
        error e{.kind = error_kind::leak, .bytes = bytes};
        heaps_.for_each([&](block const& b) {
            if (b.now != block::state::live) { return; }
            if (e.blocks++ == 0) { e.pointer = b.pointer(); }
        });
        return e;
    }
    /// Adds to the error of a rejected free whether the block around its address is free or live.
    [[gnu::cold]] void explain_refusal(refused_free& e) const noexcept {
        block const* const b = heaps_.around(e.what.pointer);
        if (b == nullptr) { return; }
        if (b->now != block::state::live) {
            e.found_free();
        } else {
            e.found_live(b->pointer(), b->bytes - b->slack, std::size_t{1} << b->alignment);
        }
    }

private:
    /// Returns true if a block is free or cached: neither live nor chosen for a request that still
    /// waits (`reserved`).
    [[nodiscard]] static bool is_unused(block const& b) noexcept {
        return b.now != block::state::live && b.now != block::state::reserved;
    }
    /// Returns true if the chunk is one free block, and no part of the block is kept for a captured
    /// graph. `trim` can return such a chunk to the upstream, but may first wait for streams.
    [[nodiscard]] static bool goes_back(block_heap::chunk const& c) noexcept {
        return c.idle() && c.first->waits_for().kept().empty();
    }

    block_heaps<InPlace> const& heaps_;
};

} // namespace detail
} // namespace vram
