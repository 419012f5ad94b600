// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_heap` divides chunks into blocks and coalesces freed blocks, without knowledge of
/// streams.

#include <vram/base/align.hpp>             // align
#include <vram/pool/core/block_chunks.hpp> // block_chunks
#include <vram/pool/core/block_table.hpp>  // block_table
#include <vram/pool/core/block_tags.hpp>   // block_tags
#include <vram/pool/core/free_blocks.hpp>  // free_blocks
#include <vram/pool/core/node_pool.hpp>    // node_pool

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move, exchange

namespace vram {
namespace detail {

/// Divides chunks into blocks. Every block has links to its neighbours in the order of addresses,
/// so coalescing needs no search. Free blocks are in bins by size; live blocks are in a hash table
/// by address. A free block stores its pending uses. The caller passes a function `price`, which
/// returns the `availability` of a pending use, given as timeline index and epoch or as a list of
/// uses. It also passes `is_complete(use)`, which returns true if a pending use is complete.
///
/// Failure   `reserve` and `add` throw `std::bad_alloc` and change nothing. No other function
///           fails.
/// Threads   One thread at a time.
/// Cost      Constant at any number of blocks. `find` looks at a bounded number of candidates,
///           unless it is called with `all`.
class block_heap {
public:
    static constexpr std::size_t granule = bins::granule;

    using fit    = free_blocks::fit;
    using judged = free_blocks::judged;
    using chunk  = block_chunks::chunk;

    /// `in_place`: chunks can grow at their ends. Each chunk then ends with a free block, which may
    /// have zero bytes. `apart` is the value of `block::apart` for all blocks of this heap.
    explicit block_heap(bool in_place = false, bool apart = false) noexcept
        : free_{in_place}, apart_{apart} {}
    block_heap(block_heap&& other) noexcept { *this = static_cast<block_heap&&>(other); }
    block_heap& operator=(block_heap&& other) noexcept {
        free_            = std::move(other.free_);
        apart_           = other.apart_;
        blocks_          = std::move(other.blocks_);
        tags_            = std::move(other.tags_);
        live_            = std::move(other.live_);
        chunks_          = std::move(other.chunks_);
        taken_           = std::exchange(other.taken_, 0);
        all_freed_       = std::exchange(other.all_freed_, false);
        has_uncoalesced_ = std::exchange(other.has_uncoalesced_, false);
        return *this;
    }

    /// Sets the page table that tells which parts of a block that is not fully backed have physical
    /// memory; null for none.
    void know_memory(page_book const* pages) noexcept { free_.know_memory(pages); }

    /// Makes sure that the next `take` cannot fail for lack of host memory.
    void reserve() {
        if (!blocks_.has(3) || !tags_.has(3) || !live_.has_room()) { reserve_more(); }
    }
    [[gnu::noinline]] void reserve_more() {
        blocks_.reserve(3); // two descriptors for `take`, one for a chunk that is added in between
        tags_.reserve(3);
        live_.reserve(1);
    }

    /// Returns the place in a free block that suits a request best, without allocating it;
    /// `fit::where` is null if there is none. See `free_blocks::find`.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price,
                           bool all) const {
        return free_.find(bytes, alignment, price, all);
    }

    /// Allocates [start, start + bytes) from a free block. The rest of the block stays free.
    /// Requires a call of `reserve` before.
    block* take(fit const& place, std::size_t bytes) noexcept {
        block* b = place.where;
        if (b->slot == block::several) { return take_part(place, bytes); }
        bool const front = place.start == b->address;
        if (front && b->before != nullptr && b->bytes != bytes) { return take_front(b, bytes); }
        free_.remove(b);
        if (!front) {
            block* const rest = b;
            b                 = cut(rest, place.start - rest->address);
            free_.insert(rest);
        }
        if (b->bytes != bytes || free_.is_tail(b)) { free_.insert(cut(b, bytes)); }
        return hand_out(b);
    }

    /// Fast path at the default alignment: allocates from the front of a free block that is found
    /// without a search, if the stream with timeline index `slot` may use it without a wait.
    /// Returns null if there is no such block, or if `take` must first reserve host memory or
    /// coalesce.
    template <class Price>
    [[gnu::noinline]] block* take_quick(std::size_t bytes, std::size_t slot,
                                        Price const& price) noexcept {
        if (!blocks_.has(2) || !live_.has_room() || all_freed_ || tags_.empty()) { return nullptr; }
        block* const b = free_.quick(bytes, slot, price);
        if (b == nullptr) { return nullptr; }
        if (b->bytes != bytes && b->before != nullptr) { return take_front(b, bytes); }
        return take({b, b->address}, bytes);
    }

    /// Returns the live block that begins at `p`, or null.
    [[nodiscard, gnu::always_inline]] block* live(void const* p) const noexcept {
        return live_.find(reinterpret_cast<std::uintptr_t>(p));
    }

    /// `hold` sets the pending uses of a block that is not in a bin. `keep` sets the parts of a
    /// live block that are graph-retained (freed during a capture, kept because a graph may use
    /// them). A call of `reserve` makes room for one list of uses.
    void hold(block* b, tags const& held) noexcept { tags_.hold(b, held); }
    void keep(block* b, tags const& kept) noexcept { tags_.keep(b, kept); }

    /// Frees a live or cached block after the caller has set its pending uses (streams that may
    /// still access it), and coalesces it with its free neighbours if their pending uses can be
    /// merged. Returns the free block that contains it afterwards.
    template <class IsComplete>
    block* give(block* b, IsComplete const& is_complete) noexcept {
        live_.erase(b);
        if (live_.size() == 0 && taken_ >= enough) { all_freed_ = true; }
        return give_again(b, is_complete);
    }
    /// Makes a block free again that was set aside or is no longer live, and coalesces it with its
    /// free neighbours. If a neighbour keeps its size class, it stays in its bin.
    template <class IsComplete>
    block* give_again(block* b, IsComplete const& is_complete) noexcept {
        b->now             = block::state::free;
        block* const front = free_one(b->before);
        block* const after = free_one(b->after);
        if (front == nullptr && after == nullptr) {
            free_.insert(b);
            return b;
        }
        // The first block of a chunk, and the last if chunks can grow, must keep their descriptors;
        // only `coalesce` takes care of that.
        if (b->before == nullptr || free_.is_tail(b)) { return coalesce(b, is_complete); }
        if (after != nullptr && (front == nullptr || free_.is_tail(after))) {
            bool const both = front != nullptr;
            if (both && front->before == nullptr) { return coalesce(b, is_complete); }
            if (!tags_.merge_uses(after, b, is_complete)) { return coalesce(b, is_complete); }
            merge_into_next(b, after);
            if (!both) { return after; }
            if (tags_.merge_uses(after, front, is_complete)) {
                free_.remove(front);
                merge_into_next(front, after);
            } else {
                has_uncoalesced_ = true;
            }
            return after;
        }
        if (!tags_.merge_uses(front, b, is_complete)) { return coalesce(b, is_complete); }
        merge_into_previous(front, b);
        if (after == nullptr) { return front; }
        if (tags_.merge_uses(front, after, is_complete)) {
            free_.remove(after);
            merge_into_previous(front, after);
        } else {
            has_uncoalesced_ = true;
        }
        return front;
    }

    /// Adds a chunk as one free block with the pending uses `held`, and returns that block.
    block* add(void* base, std::size_t bytes, std::size_t alignment, tags const& held) {
        blocks_.reserve(1);
        tags_.reserve(1);
        chunks_.reserve();
        block* const b = blocks_.make();
        b->address     = reinterpret_cast<std::uintptr_t>(base);
        b->bytes       = bytes;
        b->now         = block::state::free;
        b->apart       = apart_;
        tags_.hold(b, held);
        free_.insert(b);
        chunks_.add({.first = b, .base = base, .bytes = bytes, .alignment = alignment});
        return b;
    }

    /// Returns the index of the idle chunk that is available soonest, and of equal ones the
    /// largest. Returns the number of chunks if no idle chunk can be used.
    template <class Price>
    [[nodiscard]] std::size_t idle_chunk(Price const& price) const {
        std::size_t found = chunks_.size();
        auto        least = availability::unavailable;
        for (std::size_t i = 0; i < chunks_.size(); ++i) {
            if (chunks_[i].busy || !chunks_[i].idle()) { continue; }
            availability const cost = free_blocks::priced(*chunks_[i].first, price);
            if (cost < least || (cost == least && cost != availability::unavailable &&
                                 chunks_[i].bytes > chunks_[found].bytes)) {
                found = i;
                least = cost;
            }
        }
        return found;
    }
    /// Removes the chunk at `index`, which must be idle (one free block), from the heap. The caller
    /// returns its memory to the upstream.
    chunk remove(std::size_t index) noexcept {
        chunk const gone = chunks_.take(index);
        free_.remove(gone.first);
        tags_.release(gone.first);
        blocks_.put_back(gone.first);
        return gone;
    }

    /// Returns the place with the lowest cost according to `judge(block)` among a limited number of
    /// free blocks: see `free_blocks::least`.
    template <class Judge>
    [[nodiscard]] fit least(std::size_t bytes, Judge const& judge) const {
        return free_.least(bytes, judge);
    }
    /// Calls `visit(block)` for every free block of at least `bytes`, except the end of a chunk
    /// that a thread is moving.
    template <class Visit>
    void for_each_free(std::size_t bytes, Visit const& visit) {
        free_.for_each_from(bytes, [&](block* b) {
            if (!free_.is_tail(b) || !chunks_.around(b).busy) { visit(b); }
        }); // the thread that moves the end of a chunk needs its last block in place
    }
    /// Marks a block as fully backed by physical memory. If the block is free, it is found before
    /// blocks that are not fully backed.
    void complete(block* b) noexcept {
        bool const in_bin = b->now == block::state::free;
        if (in_bin) { free_.remove(b); }
        b->bare = false;
        if (in_bin) { free_.insert(b); }
    }
    /// Removes a free block from its bin, so that no request can use it until `give_again`.
    void set_aside(block* b) noexcept {
        free_.remove(b);
        b->now = block::state::cached;
    }
    /// Removes free blocks from their bins (`set_aside(block)`), in each chunk that can grow from
    /// its end towards its beginning, as long as `taken(block)` returns true. Leaves out blocks for
    /// which `skip(block)` returns true, and chunks whose end a thread is moving.
    template <class Skip, class Taken>
    void set_aside(Skip const& skip, Taken const& taken) {
        auto const take = [&](block* b) {
            if (skip(*b)) { return true; }
            set_aside(b);
            return taken(b);
        };
        bool more = true;
        free_.for_each_tail([&](block* tail) {
            if (!more || chunks_.around(tail).busy) { return; }
            for (block* b = tail; b != nullptr && more; b = b->before) {
                if (b->now == block::state::free && b->bytes != 0) { more = take(b); }
            }
        });
    }

    /// The chunk at `base`, of `bytes` bytes, is to grow by `by` bytes at its end.
    struct chunk_extension {
        void*       base  = nullptr; ///< address of the chunk, or null if no chunk can grow
        std::size_t bytes = 0;
        std::size_t by    = 0;
    };
    /// A function object that returns the address at which a block begins.
    struct front_of {
        [[nodiscard]] std::uintptr_t operator()(block const& b) const noexcept { return b.address; }
    };
    /// Finds the chunk that must grow least so that a request fits at its end, behind all memory
    /// that is unavailable, and not before the address `from(last block)`. Marks that chunk busy
    /// until `end_growth`: no other thread makes it grow or returns it to the upstream. Returns a
    /// null `base` if no chunk can grow.
    template <class Price, class From = front_of>
    [[nodiscard]] chunk_extension begin_growth(std::size_t bytes, std::size_t alignment,
                                               Price const& price, From const& from = {}) noexcept {
        chunk_extension least;
        chunk*          found = nullptr;
        free_.for_each_tail([&](block const* tail) {
            chunk&               c     = chunks_.around(tail);
            std::uintptr_t const idle  = free_blocks::usable_from(*tail, price);
            std::uintptr_t const there = from(*tail);
            std::uintptr_t const start = align(idle > there ? idle : there, alignment);
            std::uintptr_t const end   = saturating_add(start, bytes);
            if (c.busy || end == unsatisfiable || end <= tail->end()) { return; }
            std::size_t const by = end - tail->end();
            if (found != nullptr && by >= least.by) { return; }
            found = &c;
            least = {c.base, c.bytes, by};
        });
        if (found != nullptr) { found->busy = true; }
        return least;
    }
    /// Ends the growth begun by `begin_growth`: the chunk at `base` has `by` (0: no) more bytes of
    /// addresses at its end, which have no physical memory yet.
    void end_growth(void const* base, std::size_t by) noexcept {
        chunk& c    = chunks_.at(base);
        block* tail = nullptr;
        free_.for_each_tail([&](block* b) { tail = b->end() == c.end() ? b : tail; });
        tags const held = tail->waits_for();
        tail->bytes += by;
        tail->bare = (tail->bare || by != 0) && tail->bytes != 0;
        chunks_.extend(c, by);
        c.busy = false;
        if (held.empty() || tail->slot == block::several || !tags_.empty()) {
            tags_.hold(tail, held);
        }
    }

    /// Returns true once after all blocks have been freed and no block is cached, if at least 64
    /// allocations were made since it returned true before. The free memory may then be divided
    /// into pieces that wait for different streams. Coalescing all of it lets a program that
    /// repeats itself find the same addresses again.
    [[nodiscard]] bool was_all_freed() noexcept {
        if (!all_freed_) { return false; }
        taken_ = 0;
        return std::exchange(all_freed_, false);
    }
    /// Coalesces all free neighbours and drops complete uses, also if every block is coalesced
    /// already: see `coalesce_pending`.
    template <class IsComplete>
    void coalesce_all(IsComplete const& is_complete) noexcept {
        has_uncoalesced_ = true;
        coalesce_pending(is_complete);
    }

    /// Returns true if there may be free neighbours that could not be coalesced.
    [[nodiscard]] bool has_uncoalesced() const noexcept { return has_uncoalesced_; }
    /// Coalesces free neighbours that could not be coalesced before, and drops uses for which
    /// `is_complete(use)` returns true. Cost: a walk over all blocks if there may be such
    /// neighbours, else nothing.
    template <class IsComplete>
    void coalesce_pending(IsComplete const& is_complete) noexcept {
        if (!std::exchange(has_uncoalesced_, false)) { return; }
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                if (b->now != block::state::free) { continue; }
                tags_.refresh(b, is_complete);
                free_.remove(b);
                while (merge_next_if_free(b, is_complete)) {}
                free_.insert(b);
            }
        }
    }

    /// Called if captured graphs will not run again. Parts of blocks that are not live and were
    /// kept for a graph then wait only for the epoch `epoch(slot)` of their stream. The
    /// graph-retained parts recorded for live blocks are dropped.
    template <class Epoch>
    void end_captures(Epoch const& epoch) noexcept {
        auto const kept = [](tag const& t) { return t.epoch == tag::captured; };
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                if (b->now == block::state::live) {
                    tags_.refresh(b, kept);
                } else {
                    block_tags::end_captures(b, epoch);
                }
            }
        }
    }

    /// Marks the pending uses of all blocks by the stream with timeline index `slot` as
    /// graph-retained, if they began in the epoch `from` or later. Called because the stream is
    /// being captured.
    void keep_for_capture(std::size_t slot, std::uint64_t from) noexcept {
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                block_tags::keep_for_capture(b, slot, from);
            }
        }
    }

    [[nodiscard]] block_chunks const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t largest_free() const noexcept { return free_.largest_block(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

private:
    /// Number of allocations after which coalescing everything is worth the events recorded.
    static constexpr std::size_t enough = 64;

    block* hand_out(block* b) noexcept {
        b->now  = block::state::live;
        b->bare = false;
        b->slot = block::nobody;
        live_.insert(b);
        ++taken_;
        return b;
    }
    /// Allocates the first bytes of a free block that is larger than that and is not the first
    /// block of its chunk. The rest keeps its descriptor, its uses, and nearly always its bin.
    [[gnu::always_inline]] block* take_front(block* rest, std::size_t bytes) noexcept {
        block* const         b      = blocks_.reuse();
        block* const         before = rest->before;
        std::uintptr_t const start  = rest->address;
        b->address                  = start;
        b->bytes                    = bytes;
        b->before                   = before;
        b->after                    = rest;
        b->apart                    = apart_;
        before->after               = b;
        rest->before                = b;
        rest->address               = start + bytes;
        free_.resize(rest, rest->bytes - bytes);
        tags_.drop_front(rest);
        return hand_out(b);
    }
    /// Allocates [start, start + bytes) of a free block as `take` does, if the block has a list of
    /// pending uses: each rest keeps the uses of its own part.
    block* take_part(fit const& place, std::size_t bytes) noexcept {
        block*               b     = place.where;
        std::uintptr_t const start = place.start;
        free_.remove(b);
        tags const held = b->note->what;
        tags_.release(b);
        if (start != b->address) {
            block* const front = b;
            b                  = cut(front, start - front->address);
            tags_.hold(front, held.within(front->address, front->end()));
            free_.insert(front);
        }
        if (b->bytes != bytes || free_.is_tail(b)) {
            block* const rest = cut(b, bytes);
            tags_.hold(rest, held.within(rest->address, rest->end()));
            free_.insert(rest);
        }
        return hand_out(b);
    }

    /// Divides the free block `b`, which is in no bin: shortens it to `bytes` and returns a new
    /// block for the rest, also in no bin. The block has at most one pending use, that of both
    /// parts.
    block* cut(block* b, std::size_t bytes) noexcept {
        block* const rest = blocks_.make();
        rest->address     = b->address + bytes;
        rest->bytes       = b->bytes - bytes;
        rest->before      = b;
        rest->after       = b->after;
        rest->slot        = rest->bytes != 0 ? b->slot : block::nobody;
        rest->epoch       = b->epoch;
        rest->now         = block::state::free;
        rest->apart       = b->apart;
        rest->bare        = b->bare && rest->bytes != 0;
        if (rest->after != nullptr) { rest->after->before = rest; }
        b->after = rest;
        b->bytes = bytes;
        return rest;
    }

    [[nodiscard]] static block* free_one(block* b) noexcept {
        return b != nullptr && b->now == block::state::free ? b : nullptr;
    }
    /// Merges `b`, which is in no bin, into the free block before it, which stays in a bin and
    /// already has the merged uses.
    [[gnu::always_inline]] block* merge_into_previous(block* front, block* b) noexcept {
        front->bare = front->bare || b->bare;
        free_.resize(front, front->bytes + b->bytes);
        front->after = b->after;
        if (front->after != nullptr) { front->after->before = front; }
        blocks_.put_back(b);
        return front;
    }
    /// Merges `b`, which is in no bin and is not the first of its chunk, into the free block after
    /// it, which stays in a bin and already has the merged uses.
    [[gnu::always_inline]] block* merge_into_next(block* b, block* after) noexcept {
        after->bare = after->bare || b->bare;
        free_.resize(after, after->bytes + b->bytes);
        after->address   = b->address;
        after->before    = b->before;
        b->before->after = after;
        blocks_.put_back(b);
        return after;
    }
    /// General case of coalescing: merges `b`, which is in no bin, with its free neighbours if
    /// their pending uses can be merged, and puts the result into a bin.
    template <class IsComplete>
    block* coalesce(block* b, IsComplete const& is_complete) noexcept {
        merge_next_if_free(b, is_complete);
        block* const front = free_one(b->before);
        if (front == nullptr) {
            free_.insert(b);
            return b;
        }
        free_.remove(front);
        bool const joined = merge_next(front, is_complete);
        free_.insert(front);
        if (joined) { return front; }
        free_.insert(b);
        has_uncoalesced_ = true;
        return b;
    }

    /// Merges the block after `b` into `b`, both in no bin. Returns false if their pending uses
    /// cannot be merged; then at most complete uses are dropped.
    template <class IsComplete>
    bool merge_next(block* b, IsComplete const& is_complete) noexcept {
        block* const gone = b->after;
        if (!tags_.merge_uses(b, gone, is_complete)) { return false; }
        b->bytes += gone->bytes;
        b->bare  = b->bare || gone->bare;
        b->after = gone->after;
        if (b->after != nullptr) { b->after->before = b; }
        blocks_.put_back(gone);
        return true;
    }
    /// Merges the block after `b`, if it is free, into `b`. Returns true if it did.
    template <class IsComplete>
    bool merge_next_if_free(block* b, IsComplete const& is_complete) noexcept {
        block* const after = free_one(b->after);
        if (after == nullptr) { return false; }
        free_.remove(after);
        if (merge_next(b, is_complete)) { return true; }
        free_.insert(after);
        has_uncoalesced_ = true;
        return false;
    }

    free_blocks      free_;
    node_pool<block> blocks_;
    block_tags       tags_;
    block_table      live_;
    block_chunks     chunks_;
    std::size_t      taken_           = 0;     ///< number of allocations since all was coalesced
    bool             all_freed_       = false; ///< true if all blocks were freed since then
    bool             has_uncoalesced_ = false; ///< true if some free neighbours are not coalesced
    bool             apart_;
};

} // namespace detail
} // namespace vram
