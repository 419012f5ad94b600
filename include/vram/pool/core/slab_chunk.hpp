// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_chunk` is a chunk divided into blocks of one size, with a descriptor for each block.

#include <vram/base/core/heap_array.hpp>

#include <bit> // countr_zero
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A chunk of blocks of one size, with a descriptor for each block. A bitmap contains the *clean*
/// blocks: free blocks that no stream may still use.
///
/// Failure   The constructor throws `std::bad_alloc`.
/// Threads   One thread at a time.
/// Cost      Constant, except for the constructor and `has_retained`.
struct slab_chunk {
    /// The state of a block: live, or free. A stream or a captured graph may still use a free block
    /// that is not `clean`.
    enum class place : unsigned char {
        clean,    ///< free, any stream may use it without a wait
        pending,  ///< free, but a stream may still use it
        retained, ///< free, but a captured graph may use it
        live      ///< allocated and not yet freed
    };
    struct entry {
        /// The block that was freed before this one, in the same list.
        entry*      older   = nullptr;
        entry*      newer   = nullptr;
        void*       address = nullptr;
        slab_chunk* home    = nullptr;
        union {
            /// For a `pending` or `retained` block: number of the last part of the stream's work
            /// (epoch) that may use the block. It is 0 if only captured graphs may use the block.
            std::uint64_t epoch = 0;
            std::size_t   asked; ///< of a live block: the requested size
        };
        /// Index of the stream that may still use the block, or on which a graph that may use it
        /// was captured.
        std::uint32_t slot  = 0;
        unsigned char shift = 0; ///< of a live block: binary logarithm of the requested alignment
        place         at    = place::clean;
        /// True for a live block that was allocated from the `retained` blocks during a capture. A
        /// captured graph may use such a block.
        bool in_graph = false;
    };

    /// Divides the `size` bytes at `at` into blocks of `stride` bytes, all of which are live at
    /// first.
    slab_chunk(void* at, std::size_t size, std::size_t stride)
        : base{at}, bytes{size}, live{size / stride} {
        entries.reserve(live);
        map.reserve((live + 63) / 64);
        for (std::size_t i = 0; i < live; i += 64) { map.push(std::uint64_t{0}); }
        for (std::size_t i = 0; i < live; ++i) {
            entry& n  = entries.push();
            n.address = static_cast<std::byte*>(at) + i * stride;
            n.home    = this;
            n.at      = place::live;
        }
    }
    /// Not movable: the descriptors of blocks contain the address of their chunk.
    slab_chunk(slab_chunk&&) = delete;

    /// Allocates the clean block (used by no stream) with the lowest address. There must be one.
    entry* take_lowest() noexcept {
        while (map[first_word] == 0) { ++first_word; }
        std::uint64_t&    word = map[first_word];
        std::size_t const i    = 64 * first_word + static_cast<std::size_t>(std::countr_zero(word));
        word &= word - 1;
        --clean;
        return hand_out(entries[i]);
    }
    /// Marks a free block that was removed from its list as live.
    entry* hand_out(entry& n) noexcept {
        n.at = place::live;
        ++live;
        return &n;
    }
    /// Marks a live block as free for every stream: no stream uses it any more.
    void make_clean(entry& n) noexcept {
        --live;
        auto const i = static_cast<std::size_t>(&n - entries.begin());
        map[i / 64] |= std::uint64_t{1} << (i % 64);
        if (i / 64 < first_word) { first_word = i / 64; }
        n.at = place::clean;
        ++clean;
    }
    /// Marks a live block as free, although the stream with the index `slot` may still use it until
    /// its `epoch` (a part of its work) is complete. `where` must be `retained` if a captured graph
    /// may use the block.
    void make_pending(entry& n, std::size_t slot, std::uint64_t epoch,
                      place where = place::pending) noexcept {
        --live;
        n.slot  = static_cast<std::uint32_t>(slot);
        n.epoch = epoch;
        n.at    = where;
    }
    /// Returns true if a block of this chunk is free but kept for a captured graph. Cost: at most a
    /// walk over all blocks.
    [[nodiscard]] bool has_retained() const noexcept {
        if (pending() == 0) { return false; }
        for (entry const& n : entries) {
            if (n.at == place::retained) { return true; }
        }
        return false;
    }
    /// Returns the number of free blocks of this chunk that are not clean: a stream or a captured
    /// graph may still use them.
    [[nodiscard]] std::size_t pending() const noexcept { return entries.size() - live - clean; }

    void*       base;
    std::size_t bytes;
    std::size_t live; ///< number of live blocks in this chunk
    std::size_t clean = 0;
    /// All words of the bitmap `map` before this one are zero.
    std::size_t first_word = 0;
    std::size_t position   = 0; ///< index of this chunk in the list of its heap
    /// Next chunk with the same key (address range) in the table of chunks by address.
    slab_chunk* beside = nullptr;
    /// Links in the list of chunks with clean blocks (free, used by no stream).
    slab_chunk*               next     = nullptr;
    slab_chunk*               previous = nullptr;
    heap_array<entry>         entries;
    heap_array<std::uint64_t> map; ///< bitmap of the clean blocks (free, used by no stream)
};

} // namespace detail
} // namespace vram
