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

/// The blocks of some chunks of a pool. Free blocks are in a `block_divider`; live blocks, and
/// cached ones (freed, and kept for the next request of their size), are in a hash table by
/// address. A free block stores its pending uses (streams that may still access it). The caller
/// passes a function `price`, which tells if the asking stream may use memory with a pending use
/// now, after a wait, or not at all. The use is given as the index of a stream and an epoch (part
/// of its work), or as a list of uses. It also passes `is_complete(use)`, which returns true if a
/// use has ended.
///
/// Failure   `reserve` and `add` throw `std::bad_alloc` and change nothing. Nothing else fails.
/// Threads   One thread at a time.
/// Cost      Allocation and free take constant time at any number of blocks: `find` examines a
///           bounded number of candidates, unless it is called with `all`. Functions that concern
///           all blocks or chunks visit each of them.
class block_heap {
public:
    static constexpr std::size_t granule = bins::granule;

    using fit    = free_blocks::fit;
    using judged = free_blocks::judged;
    using chunk  = block_chunks::chunk;

    using chunk_extension = detail::chunk_extension;
    using front_of        = detail::front_of;

    /// `in_place`: chunks can grow at their ends. Each chunk then ends with a free block, which may
    /// have zero bytes. `apart`: this is the heap of small blocks (`block::apart`).
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

    /// Sets the pool's table of the pages that have physical memory, or null if all have.
    void know_memory(page_book const* pages) noexcept { free_index().know_memory(pages); }

    /// Reserves the host memory (descriptors, a place in the table of live blocks) that the next
    /// `take` needs, so that `take` cannot fail. Throws `std::bad_alloc` if there is none.
    void reserve() {
        if (!divider_.has(3) || !live_.has_room()) { reserve_more(); }
    }
    [[gnu::noinline]] void reserve_more() {
        divider_.reserve(3); // `take` needs at most two descriptors, a new chunk one
        live_.reserve(1);
    }

    /// Finds a place for `bytes` at `alignment` in a free block, and does not allocate it: one that
    /// fits well and is ready according to `price`, or else one that needs a wait. `fit::where` is
    /// null if none is found. Examines a limited number of blocks, or, if `all`, all that are large
    /// enough.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price,
                           bool all) const {
        return free_index().find(bytes, alignment, price, all);
    }

    /// Allocates `bytes` from `place.start` on from a free block. The rest of the block stays free.
    /// Requires a call of `reserve` before.
    block* take(fit const& place, std::size_t bytes) noexcept {
        return hand_out(divider_.take(place, bytes));
    }

    /// Fast path at the default alignment: allocates from the front of a free block that is found
    /// without a search, if the stream with the index `slot` may use it without a wait. Returns
    /// null if there is no such block, or if host memory must be reserved or blocks must be
    /// coalesced first.
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

    /// `hold` sets the pending uses (streams that may still access the memory) of a block that is
    /// in no bin (free list by size). `keep` sets the parts of a live block that are graph-retained
    /// (freed during a capture, kept because a graph may use them). Each call may use up one list
    /// of uses, which `block_heap::reserve` makes available.
    void hold(block* b, tags const& held) noexcept { divider_.hold(b, held); }
    void keep(block* b, tags const& kept) noexcept { divider_.keep(b, kept); }

    /// Frees a live or cached block after the caller has set its pending uses (streams that may
    /// still access it), and coalesces it with its free neighbours if their pending uses can be
    /// merged. Returns the free block that contains the freed memory afterwards.
    template <class IsComplete>
    block* give(block* b, IsComplete const& is_complete) noexcept {
        live_.erase(b);
        if (live_.size() == 0 && taken_ >= enough) { all_freed_ = true; }
        return give_again(b, is_complete);
    }
    /// Makes a block free again that `set_aside` removed from its bin (free list by size), and
    /// coalesces it with its free neighbours. Returns the free block that then contains the memory.
    template <class IsComplete>
    block* give_again(block* b, IsComplete const& is_complete) noexcept {
        return divider_.give_again(b, is_complete);
    }

    /// Adds a chunk as one free block with the pending uses `held` (streams that may still access
    /// the chunk), and returns that block.
    block* add(void* base, std::size_t bytes, std::size_t alignment, tags const& held) {
        divider_.reserve(1);
        chunks_.reserve();
        block* const b = divider_.add(base, bytes, held);
        chunks_.add({.first = b, .base = base, .bytes = bytes, .alignment = alignment});
        return b;
    }

    /// Returns the index of the idle chunk (without a live block) that a stream may use soonest, as
    /// `price` tells, and of equal ones the largest. Returns the number of chunks if no idle chunk
    /// can be used.
    template <class Price>
    [[nodiscard]] std::size_t idle_chunk(Price const& price) const {
        return chunks_.idle([&](block const& b) { return block_places::priced(b, price); });
    }
    /// Removes the chunk at `index`, which must be idle (one free block), from the heap. The caller
    /// returns its memory to the upstream.
    chunk remove(std::size_t index) noexcept {
        chunk const gone = chunks_.take(index);
        divider_.remove(gone.first);
        return gone;
    }

    /// Returns the place with the lowest cost according to `judge(block)`, among a limited number
    /// of free blocks of at least `bytes`. `fit::where` is null if there is none. See
    /// `free_blocks::least`.
    template <class Judge>
    [[nodiscard]] fit least(std::size_t bytes, Judge const& judge) const {
        return free_index().least(bytes, judge);
    }
    /// Calls `visit(block)` for every free block of at least `bytes`, except the last block of a
    /// chunk whose size a thread is changing.
    template <class Visit>
    void for_each_free(std::size_t bytes, Visit const& visit) {
        free_index().for_each_from(bytes, [&](block* b) {
            if (!free_index().is_tail(b) || !chunks_.around(b).busy) { visit(b); }
        }); // a thread that changes a chunk's size relies on the chunk's last block
    }
    /// `complete` marks a block as fully backed by physical memory. `set_aside` removes a free
    /// block from its bin (free list by size), so that no request can use it.
    void complete(block* b) noexcept { divider_.complete(b); }
    void set_aside(block* b) noexcept { divider_.set_aside(b); }
    /// Removes free blocks from their bins (free lists by size): calls `set_aside(block)`, then
    /// `taken(block)`, until `taken` returns false. Visits only chunks that can grow, each from its
    /// last block towards lower addresses. Leaves out blocks for which `skip(block)` returns true,
    /// and chunks whose size a thread is changing.
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

    /// Finds the chunk that must grow least, so that the request fits at its end: behind all memory
    /// that the stream may not use, as `price` tells, and not before the address `from(b)` that the
    /// caller permits for the chunk's last block `b`. Marks that chunk busy: until `end_growth`, no
    /// other thread makes it grow or returns it to the upstream. The result has a null `base` if no
    /// chunk can grow.
    template <class Price, class From = front_of>
    [[nodiscard]] chunk_extension begin_growth(std::size_t bytes, std::size_t alignment,
                                               Price const& price, From const& from = {}) noexcept {
        return chunk_extension::begin(free_index(), chunks_, bytes, alignment, price, from);
    }
    /// Ends the growth begun by `begin_growth`. The chunk at `base` now has `by` more bytes of
    /// addresses at its end, without physical memory. If the growth failed, `by` is 0.
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

    /// Returns true once after all blocks were freed and none is cached, if at least 64 allocations
    /// were made since the last call that returned true. The free memory may then be divided into
    /// pieces that wait for different streams. Coalescing all free memory lets a program that
    /// repeats itself find the same addresses again.
    [[nodiscard]] bool was_all_freed() noexcept {
        if (!all_freed_) { return false; }
        taken_ = 0;
        return std::exchange(all_freed_, false);
    }
    /// Coalesces free neighbours as far as their pending uses by streams can be merged, and drops
    /// complete uses. Always visits all blocks, also if none of them can be coalesced.
    template <class IsComplete>
    void coalesce_all(IsComplete const& is_complete) noexcept {
        divider_.mark_uncoalesced();
        coalesce_pending(is_complete);
    }

    /// Returns true if there may be free neighbours that could not be coalesced.
    [[nodiscard]] bool has_uncoalesced() const noexcept { return divider_.has_uncoalesced(); }
    /// Coalesces neighbouring free blocks that could not be coalesced before, and drops complete
    /// pending uses by streams.
    template <class IsComplete>
    void coalesce_pending(IsComplete const& is_complete) noexcept {
        divider_.coalesce_pending(chunks_, is_complete);
    }

    /// Called when no launch of a captured graph is running or will follow. Memory that was freed
    /// during a capture and kept for its graph, also as part of a live block, is unused from now
    /// on. No block may be in a quick list (freed blocks of one size and stream).
    void end_captures() noexcept {
        auto const kept = [](tag const& t) { return t.epoch == tag::captured; };
        chunks_.for_each([&](block& b) { divider_.refresh(&b, kept); });
    }

    /// Called because the stream with the index `slot` is being captured. Blocks that it freed in
    /// the epoch `from` (a numbered part of its work) or later may belong to the graph, so they are
    /// kept for the graph until `end_captures`.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        chunks_.for_each([&](block& b) { block_tags::keep_for_capture(&b, slot, from); });
    }

    [[nodiscard]] block_chunks const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t largest_free() const noexcept { return free_index().largest_block(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

private:
    /// `was_all_freed` returns true only after this many allocations: then they outweigh the cost
    /// of coalescing all free blocks, which records events.
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
    /// Number of allocations since `was_all_freed` last returned true, or since the heap was
    /// created.
    std::size_t taken_ = 0;
    /// Becomes true if the last live or cached block is freed after at least `enough` allocations,
    /// and false in `was_all_freed`, which returns this value.
    bool all_freed_ = false;
};

} // namespace detail
} // namespace vram
