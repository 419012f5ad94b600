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

/// Allocates and frees blocks in some chunks of a pool. Free blocks are in lists by size, live and
/// cached ones in a table by address. Free blocks store their pending uses by streams: `price`
/// tells if the asking stream may use the memory now, after a wait, or not at all, and
/// `is_complete(use)` tells if a use has ended.
///
/// Threads   One thread at a time.
/// Cost      Constant for an allocation or free, except for a search of all free blocks.
class block_heap {
public:
    static constexpr std::size_t granule = bins::granule;

    using fit    = free_blocks::fit;
    using judged = free_blocks::judged;
    using chunk  = block_chunks::chunk;

    using chunk_extension = detail::chunk_extension;
    using front_of        = detail::front_of;

    /// `in_place`: chunks can grow, so the last block of each is never allocated, and may have zero
    /// bytes. `apart`: this object is the heap for small blocks.
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

    /// Sets the pool's table of the pages that have physical memory. If null, `find` and
    /// `take_quick` return no block that may lack some; `least` may.
    void know_memory(page_book const* pages) noexcept { free_index().know_memory(pages); }

    /// Reserves the host memory for the next `take`, so that it cannot fail.
    void reserve() {
        if (!divider_.has(3) || !live_.has_room()) { reserve_more(); }
    }
    [[gnu::noinline]] void reserve_more() {
        divider_.reserve(3); // `take` needs at most two descriptors, a new chunk one
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

    /// Fast path: allocates `bytes` from one of the first blocks of the free lists that the stream
    /// with the index `slot` may use now. Returns null if `find` must search.
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

    /// `hold` replaces the pending uses (streams that may still access the memory) of a block.
    /// `keep` marks parts of a new block that captured graphs may still use. Both require
    /// `reserve`.
    void hold(block* b, tags const& held) noexcept { divider_.hold(b, held); }
    void keep(block* b, tags const& kept) noexcept { divider_.keep(b, kept); }

    /// Frees an allocated or cached block with the pending uses stored in it, and coalesces it with
    /// free neighbours. Returns the free block that contains its memory.
    template <class IsComplete>
    block* give(block* b, IsComplete const& is_complete) noexcept {
        live_.erase(b);
        if (live_.size() == 0 && taken_ >= enough) { all_freed_ = true; }
        return give_again(b, is_complete);
    }
    /// Makes a block free again after `set_aside`, coalesced with free neighbours if one descriptor
    /// can store their pending uses. Returns the free block that contains it.
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

    /// Returns the index of the chunk (one free block, not busy) that the asking stream may use
    /// soonest, as `price(use)` rates it; the number of chunks if none is usable.
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

    /// Returns the place with the lowest cost by `judge(block)` in free blocks of at least `bytes`.
    /// Judges at most 65 blocks, to limit the time. `where` is null if none is suitable.
    template <class Judge>
    [[nodiscard]] fit least(std::size_t bytes, Judge const& judge) const {
        return free_index().least(bytes, judge);
    }
    /// Calls `visit(block)` for all free blocks of at least `bytes`, except the last block of a
    /// chunk that is being resized (busy).
    template <class Visit>
    void for_each_free(std::size_t bytes, Visit const& visit) {
        free_index().for_each_from(bytes, [&](block* b) {
            if (!free_index().is_tail(b) || !chunks_.around(b).busy) { visit(b); }
        });
    }
    /// `complete` marks a block as fully backed by physical memory. `set_aside` removes a free
    /// block from its free list.
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

    /// Plans the growth of the chunk that needs the fewest added bytes for the request, which
    /// begins at `from(last block)` or above. Marks it busy until `end_growth`. Null `base`: none
    /// can grow.
    template <class Price, class From = front_of>
    [[nodiscard]] chunk_extension begin_growth(std::size_t bytes, std::size_t alignment,
                                               Price const& price, From const& from = {}) noexcept {
        return chunk_extension::begin(free_index(), chunks_, bytes, alignment, price, from);
    }
    /// Ends the growth that `begin_growth` began for the chunk at `base`: adds `by` bytes, perhaps
    /// without physical memory, to its last block. `by` is 0 if the growth failed.
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

    /// Returns true if, since it last did, the heap once had no live or cached block after at least
    /// `enough` allocations. The caller can then coalesce all free memory.
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
    /// If `has_uncoalesced()`, drops uses of free blocks for which `is_complete(use)` is true, and
    /// coalesces neighbours. Otherwise does nothing.
    template <class IsComplete>
    void coalesce_pending(IsComplete const& is_complete) noexcept {
        divider_.coalesce_pending(chunks_, is_complete);
    }

    /// Makes memory kept for captured graphs usable for all requests. No graph may run any more,
    /// and no block may be in a quick list.
    void end_captures() noexcept {
        auto const kept = [](tag const& t) { return t.epoch == tag::captured; };
        chunks_.for_each([&](block& b) { divider_.refresh(&b, kept); });
    }

    /// Marks memory that the stream with the index `slot` freed from its epoch `from` (a part of
    /// its work) on: until `end_captures`, only captures of this stream may use it.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        chunks_.for_each([&](block& b) { block_tags::keep_for_capture(&b, slot, from); });
    }

    [[nodiscard]] block_chunks const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t largest_free() const noexcept { return free_index().largest_block(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

private:
    /// Number of allocations needed before `was_all_freed` returns true: after fewer, coalescing
    /// all free blocks is not worth its cost.
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
    /// The next result of `was_all_freed`.
    bool all_freed_ = false;
};

} // namespace detail
} // namespace vram
