// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_heaps` is a heap for small blocks and a heap for large blocks.

#include <vram/base/bytes.hpp> // literals
#include <vram/pool/core/block_heap.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// Two heaps with separate chunks, one for small and one for large blocks. So small blocks rarely
/// lie between large free blocks, where they would prevent coalescing. If `apart` is false, one
/// heap has all blocks.
///
/// Threads   One thread at a time.
template <bool InPlace>
class block_heaps {
public:
    using fit             = block_heap::fit;
    using chunk           = block_heap::chunk;
    using chunk_extension = block_heap::chunk_extension;

    static constexpr std::size_t small_size = 1_MiB; ///< largest size of a small block in bytes

    /// If `apart`, blocks of at most `small_size` bytes have a separate heap with separate chunks.
    explicit block_heaps(bool apart = true) noexcept : small_{apart ? small_size : 0} {}

    /// Sets the table that records which pages have physical memory. If `pages` is null, `find` and
    /// `take_quick` of the heaps do not use blocks that may lack physical memory.
    void know_memory(page_book const* pages) noexcept {
        for (block_heap& heap : *this) { heap.know_memory(pages); }
    }

    [[nodiscard]] block_heap&       of(std::size_t bytes) noexcept { return all_[index(bytes)]; }
    [[nodiscard]] block_heap const& of(std::size_t bytes) const noexcept {
        return all_[index(bytes)];
    }
    [[nodiscard]] block_heap& other_than(block_heap const& one) noexcept {
        return &one == all_ ? all_[1] : all_[0];
    }
    /// Returns true if a block of this size belongs to the heap for small blocks.
    [[nodiscard]] bool        is_small(std::size_t bytes) const noexcept { return bytes <= small_; }
    [[nodiscard]] block_heap& of(block const& b) noexcept { return all_[b.apart ? 0 : 1]; }
    [[nodiscard]] auto        begin() noexcept { return all_; }
    [[nodiscard]] auto        end() noexcept { return all_ + count; }

    /// Returns the live, reserved or cached block that begins at `p`, or null. Searches first the
    /// heap for blocks of `bytes`, then the other heap.
    [[nodiscard, gnu::always_inline]] block* live(void const* p, std::size_t bytes) const noexcept {
        block* const b = of(bytes).live(p);
        if (b != nullptr) [[likely]] { return b; }
        return live_elsewhere(p, bytes);
    }

    /// A chunk that consists of one free block. `heap` is the heap of this chunk, or null if there
    /// is no such chunk.
    struct idle {
        block_heap*  heap  = nullptr;
        std::size_t  index = 0;
        availability cost  = availability::unavailable;

        [[nodiscard]] chunk const& what() const noexcept { return heap->chunks()[index]; }
    };
    /// Returns the unused chunk that the asking stream may use soonest, or the largest of several
    /// such chunks. An unused chunk is one free block, and no thread resizes it. If the stream may
    /// use no chunk, `heap` is null.
    template <class Price>
    [[nodiscard]] idle idle_chunk(Price const& price) noexcept {
        idle best;
        for (block_heap& heap : *this) {
            std::size_t const i = heap.idle_chunk(price);
            if (i == heap.chunks().size()) { continue; }
            availability const cost = block_places::priced(*heap.chunks()[i].first, price);
            bool const larger = best.heap == nullptr || heap.chunks()[i].bytes > best.what().bytes;
            if (cost < best.cost || (cost == best.cost && larger)) { best = {&heap, i, cost}; }
        }
        return best;
    }

    /// Ends the growth that `begin_growth` planned for the chunk at `m.base`. `by`: number of bytes
    /// that were added, or 0 if the growth failed.
    void end_growth(chunk_extension const& m, std::size_t by) noexcept {
        for (block_heap& heap : *this) {
            if (heap.chunks().is_chunk(m.base)) { return heap.end_growth(m.base, by); }
        }
    }

    template <class IsComplete>
    void coalesce_pending(IsComplete const& is_complete) noexcept {
        for (block_heap& heap : *this) { heap.coalesce_pending(is_complete); }
    }
    void end_captures() noexcept {
        for (block_heap& heap : *this) { heap.end_captures(); }
    }
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (block_heap& heap : *this) { heap.keep_for_capture(slot, from); }
    }

    template <class Visit>
    void for_each(Visit const& visit) const {
        for (block_heap const& heap : all_) { heap.chunks().for_each(visit); }
    }
    template <class Visit>
    void for_each_chunk(Visit const& visit) const {
        for (block_heap const& heap : all_) {
            for (chunk const& c : heap.chunks()) { visit(c); }
        }
    }
    /// Returns true if `p` lies in a chunk of either heap. Cost: linear in the number of chunks.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        for (block_heap const& heap : all_) {
            if (heap.chunks().owns(p)) { return true; }
        }
        return false;
    }
    /// Returns the block that contains `p`, live or not, or null if `p` lies in no chunk. Cost:
    /// linear.
    [[nodiscard]] block const* around(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        for (block_heap const& heap : all_) {
            for (chunk const& c : heap.chunks()) {
                if (address - reinterpret_cast<std::uintptr_t>(c.base) >= c.bytes) { continue; }
                block const* b = c.first;
                while (b != nullptr && address >= b->end()) { b = b->after; }
                return b;
            }
        }
        return nullptr;
    }
    [[nodiscard]] bool empty() const noexcept {
        return sum([](block_heap const& heap) { return heap.chunks().size(); }) == 0;
    }
    [[nodiscard]] std::size_t reserved() const noexcept {
        return sum([](block_heap const& heap) { return heap.chunks().reserved(); });
    }
    [[nodiscard]] std::size_t largest_free() const noexcept {
        std::size_t most = 0;
        for (block_heap const& heap : all_) {
            std::size_t const one = heap.largest_free();
            most                  = one > most ? one : most;
        }
        return most;
    }

private:
    static constexpr std::size_t count = 2; ///< one heap for small and one for large blocks

    [[gnu::noinline]] block* live_elsewhere(void const* p, std::size_t bytes) const noexcept {
        return all_[1 - index(bytes)].live(p);
    }

    [[nodiscard]] std::size_t index(std::size_t bytes) const noexcept {
        return bytes > small_ ? 1 : 0;
    }
    template <class Ask>
    [[nodiscard]] std::size_t sum(Ask const& ask) const {
        std::size_t total = 0;
        for (block_heap const& heap : all_) { total += ask(heap); }
        return total;
    }

    std::size_t small_;
    block_heap  all_[count]{block_heap{InPlace, true}, block_heap{InPlace, false}};
};

} // namespace detail
} // namespace vram
