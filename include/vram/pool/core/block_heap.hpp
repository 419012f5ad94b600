// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_heap` allocates blocks from chunks and frees them, without knowledge of streams.

#include <vram/base/align.hpp>
#include <vram/pool/core/block_chunks.hpp>
#include <vram/pool/core/block_divider.hpp>
#include <vram/pool/core/block_table.hpp>
#include <vram/pool/core/chunk_extension.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Allocates and frees blocks in some chunks of a pool. Free blocks are in lists by size. Live and
/// cached blocks are in a table by address. A free block stores its pending uses by streams. The
/// caller, which knows the streams, passes two functions. `price` returns when the asking stream
/// may use memory with a given pending use: now, after a wait, or never. `is_complete(use)` returns
/// true if a pending use has ended.
///
/// Threads   One thread at a time.
/// Cost      Constant for an allocation or free. A search may examine all free blocks.
class block_heap {
public:
    static constexpr std::size_t granule = bins::granule;

    using fit    = free_blocks::fit;
    using judged = free_blocks::judged;
    using chunk  = block_chunks::chunk;

    using chunk_extension = detail::chunk_extension;
    using front_of        = detail::front_of;

    /// `in_place`: chunks can grow at their ends. Then the last block of each chunk is always free,
    /// and may have 0 bytes. `apart`: true for the heap of small blocks.
    explicit block_heap(bool in_place = false, bool apart = false) noexcept
        : divider_{in_place, apart} {}
    block_heap(block_heap&& other) noexcept : block_heap{} { *this = std::move(other); }
    block_heap& operator=(block_heap&& other) noexcept {
        divider_   = std::move(other.divider_);
        live_      = std::move(other.live_);
        chunks_    = std::move(other.chunks_);
        taken_     = std::exchange(other.taken_, 0);
        all_freed_ = std::exchange(other.all_freed_, false);
        return *this;
    }

    /// Sets the pool's table of the pages that have physical memory. If `pages` is null, `find` and
    /// `take_quick` do not use blocks that may lack physical memory.
    void know_memory(page_book const* pages) noexcept { free_index().know_memory(pages); }

    /// Reserves the host memory for the next `take`, so that it cannot fail.
    void reserve() {
        if (!divider_.has(3) || !live_.has_room()) { reserve_more(); }
    }
    [[gnu::noinline]] void reserve_more() {
        divider_.reserve(3); // `take` needs at most two descriptors, and a new chunk one
        live_.reserve(1);
    }

    /// Finds a place for `bytes` in a free block, preferably without a wait. `all` lifts the limit
    /// on the number of examined blocks. `fit::where` is null if none is found.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price,
                           bool all) const {
        return free_index().find(bytes, alignment, price, all);
    }

    /// Allocates `bytes` from `place.start` on. The rest of the block stays free. Requires a call
    /// of `reserve`.
    block* take(fit const& place, std::size_t bytes) noexcept {
        return hand_out(divider_.take(place, bytes));
    }

    /// Fast path of `find` and `take`, which examines only a few blocks. Allocates `bytes` from a
    /// block that the stream with the index `slot` may use without a wait. If the result is null,
    /// the caller must call `find`.
    template <class Price>
    [[gnu::noinline]] block* take_quick(std::size_t bytes, std::size_t slot,
                                        Price const& price) noexcept {
        if (!divider_.is_prepared() || !live_.has_room() || all_freed_) { return nullptr; }
        block* const b = free_index().quick(bytes, slot, price);
        if (b == nullptr) { return nullptr; }
        if (b->bytes != bytes && b->before != nullptr) {
            return hand_out(divider_.take_front(b, bytes));
        }
        return take({b, b->address}, bytes);
    }

    /// Returns the live, reserved (for a request that still waits) or cached block at `p`, or null.
    [[nodiscard, gnu::always_inline]] block* live(void const* p) const noexcept {
        return live_.find(reinterpret_cast<std::uintptr_t>(p));
    }

    /// `hold` replaces the pending uses of `b` (streams that may still access its memory) by
    /// `held`. `keep` records, for a new block `b`, the parts that captured graphs may still use.
    /// Both functions require an earlier call of `reserve`.
    void hold(block* b, tags const& held) noexcept { divider_.hold(b, held); }
    void keep(block* b, tags const& kept) noexcept { divider_.keep(b, kept); }

    /// Frees a live, reserved or cached block, and coalesces it with free neighbours if possible.
    /// The block keeps its pending uses (streams that may still access its memory). Returns the
    /// free block that then contains the memory.
    template <class IsComplete>
    block* give(block* b, IsComplete const& is_complete) noexcept {
        live_.erase(b);
        if (live_.size() == 0 && taken_ >= enough) { all_freed_ = true; }
        return give_again(b, is_complete);
    }
    /// Makes a block free again that `set_aside` removed from its free list. Coalesces it with a
    /// free neighbour if one descriptor can store the pending uses (streams that may still access
    /// the memory) of both. Returns the free block that then contains the memory.
    template <class IsComplete>
    block* give_again(block* b, IsComplete const& is_complete) noexcept {
        return divider_.give_again(b, is_complete);
    }

    /// Adds a chunk as one free block with the pending uses `held` (streams that may access the
    /// chunk). Returns that block.
    block* add(void* base, std::size_t bytes, std::size_t alignment, tags const& held) {
        divider_.reserve(1);
        chunks_.reserve();
        block* const b = divider_.add(base, bytes, held);
        chunks_.add({.first = b, .base = base, .bytes = bytes, .alignment = alignment});
        return b;
    }

    /// Returns the index of the unused chunk that the asking stream may use soonest, or the number
    /// of chunks if it may use none. An unused chunk is one free block, and no thread resizes it.
    template <class Price>
    [[nodiscard]] std::size_t idle_chunk(Price const& price) const {
        return chunks_.idle([&](block const& b) { return block_places::priced(b, price); });
    }
    /// Removes the idle chunk (one free block) at `index`, whose memory the caller must return to
    /// the upstream.
    chunk remove(std::size_t index) noexcept {
        chunk const gone = chunks_.take(index);
        divider_.remove(gone.first);
        return gone;
    }

    /// `judge(block)` returns a place and its cost. Returns the place with the lowest cost in at
    /// most 65 free blocks of at least `bytes`. If no place is suitable, `where` is null.
    template <class Judge>
    [[nodiscard]] fit least(std::size_t bytes, Judge const& judge) const {
        return free_index().least(bytes, judge);
    }
    /// Calls `visit(block)` for each free block of at least `bytes`. Omits the last block of a
    /// growable chunk while a thread resizes the chunk.
    template <class Visit>
    void for_each_free(std::size_t bytes, Visit const& visit) {
        free_index().for_each_from(bytes, [&](block* b) {
            if (!free_index().is_tail(b) || !chunks_.around(b).busy) { visit(b); }
        });
    }
    /// `complete` marks a block as fully backed by physical memory. `set_aside` removes a free
    /// block from its free list, so that no request uses the block.
    void complete(block* b) noexcept { divider_.complete(b); }
    void set_aside(block* b) noexcept { divider_.set_aside(b); }
    /// Removes free blocks of growable chunks from their lists, so that no request uses them, and
    /// calls `taken(block)` for each until that returns false. Omits busy chunks, and blocks for
    /// which `skip(block)` is true.
    template <class Skip, class Taken>
    void set_aside(Skip const& skip, Taken const& taken) {
        auto const take = [&](block* b) {
            if (skip(*b)) { return true; }
            set_aside(b);
            return taken(b);
        };
        bool more = true;
        free_index().for_each_tail([&](block* tail) {
            if (!more || chunks_.around(tail).busy) { return; }
            for (block* b = tail; b != nullptr && more; b = b->before) {
                if (b->now == block::state::free && b->bytes != 0) { more = take(b); }
            }
        });
    }

    /// Selects the chunk that must grow by the fewest bytes to serve a request. Marks this chunk
    /// busy until `end_growth`. The new block may begin at the address `from(last block)` or above.
    /// If no chunk can grow, `base` of the result is null.
    template <class Price, class From = front_of>
    [[nodiscard]] chunk_extension begin_growth(std::size_t bytes, std::size_t alignment,
                                               Price const& price, From const& from = {}) noexcept {
        return chunk_extension::begin(free_index(), chunks_, bytes, alignment, price, from);
    }
    /// Ends the growth that `begin_growth` planned for the chunk at `base`. `by`: number of bytes
    /// added to the last block of the chunk, or 0 if the growth failed.
    void end_growth(void const* base, std::size_t by) noexcept {
        chunk& c    = chunks_.at(base);
        block* tail = nullptr;
        free_index().for_each_tail([&](block* b) { tail = b->end() == c.end() ? b : tail; });
        tags const held = tail->waits_for();
        tail->bytes += by;
        tail->unbacked = (tail->unbacked || by != 0) && tail->bytes != 0;
        chunks_.extend(c, by);
        c.busy = false;
        divider_.hold_grown(tail, held);
    }

    /// Returns true if all blocks of the heap were free at some time since the last call. Only
    /// times after at least `enough` allocations count.
    [[nodiscard]] bool was_all_freed() noexcept {
        if (!all_freed_) { return false; }
        taken_ = 0;
        return std::exchange(all_freed_, false);
    }
    /// Coalesces free neighbours if one descriptor can store their pending uses by streams, and
    /// drops uses for which `is_complete(use)` returns true. Cost: a walk over all blocks.
    template <class IsComplete>
    void coalesce_all(IsComplete const& is_complete) noexcept {
        divider_.mark_uncoalesced();
        coalesce_pending(is_complete);
    }

    /// Returns true if there may be free neighbours that could not be coalesced.
    [[nodiscard]] bool has_uncoalesced() const noexcept { return divider_.has_uncoalesced(); }
    /// Does nothing unless `has_uncoalesced()` is true. Otherwise coalesces free neighbours, and
    /// drops each pending use (a stream that may still access a free block) for which
    /// `is_complete(use)` returns true.
    template <class IsComplete>
    void coalesce_pending(IsComplete const& is_complete) noexcept {
        divider_.coalesce_pending(chunks_, is_complete);
    }

    /// Makes memory kept for captured graphs usable for all requests. Before the call, all graphs
    /// must have finished, and no block may be cached (kept in a quick list).
    void end_captures() noexcept {
        auto const kept = [](tag const& t) { return t.epoch == tag::captured; };
        chunks_.for_each([&](block& b) { divider_.refresh(&b, kept); });
    }

    /// Keeps memory for captures: all memory that the stream with the index `slot` freed in its
    /// epoch `from` (a part of its work) or later. Until `end_captures`, only captures of this
    /// stream may use this memory.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        chunks_.for_each([&](block& b) { block_tags::keep_for_capture(&b, slot, from); });
    }

    [[nodiscard]] block_chunks const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t largest_free() const noexcept { return free_index().largest_block(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

private:
    /// `was_all_freed` returns true only after at least this number of allocations. If it did so
    /// more often, coalescing all free blocks would cost more than it saves.
    static constexpr std::size_t enough = 64;

    block* hand_out(block* b) noexcept {
        b->now      = block::state::live;
        b->unbacked = false;
        b->slot     = block::nobody;
        live_.insert(b);
        ++taken_;
        return b;
    }
    [[nodiscard]] free_blocks&       free_index() noexcept { return divider_.index(); }
    [[nodiscard]] free_blocks const& free_index() const noexcept { return divider_.index(); }

    block_divider divider_;
    block_table   live_;
    block_chunks  chunks_;
    /// Number of allocations since `was_all_freed` last returned true.
    std::size_t taken_ = 0;
    /// The value that the next call of `was_all_freed` returns.
    bool all_freed_ = false;
};

} // namespace detail
} // namespace vram
