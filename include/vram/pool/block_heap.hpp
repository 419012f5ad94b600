// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_heap` cuts chunks into blocks and joins what comes back: the heart of a pool, without
/// streams.

#include <vram/base/align.hpp>        // align
#include <vram/pool/block_chunks.hpp> // block_chunks
#include <vram/pool/block_table.hpp>  // block_table
#include <vram/pool/block_tags.hpp>   // block_tags
#include <vram/pool/free_blocks.hpp>  // free_blocks
#include <vram/pool/note_store.hpp>   // note_store

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move, exchange

namespace vram {

/// Every block knows its neighbours in the order of addresses, so that joining needs no search;
/// free ones are in bins by size, those handed out in a hash table by address. What a free block
/// waits for is noted with it; how much that costs whom is for the caller to say, who prices a
/// `slot` and `epoch` that hold a whole block, or the tags of a part.
///
/// Failure   `std::bad_alloc` from `reserve` and `add`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      constant at any number of blocks; `find` looks at a bounded number of candidates
class block_heap {
public:
    static constexpr std::size_t granule = bins::granule;

    using fit    = free_blocks::fit;
    using judged = free_blocks::judged;
    using chunk  = block_chunks::chunk;

    /// `in_place`: chunks grow at their ends, in which there is always a free block, of no bytes if
    /// need be.
    /// `apart` is what its blocks say of themselves.
    explicit block_heap(bool in_place = false, bool apart = false) noexcept
        : free_{in_place}, apart_{apart} {}
    block_heap(block_heap&& other) noexcept { *this = static_cast<block_heap&&>(other); }
    block_heap& operator=(block_heap&& other) noexcept {
        free_   = std::move(other.free_);
        apart_  = other.apart_;
        blocks_ = std::move(other.blocks_);
        tags_   = std::move(other.tags_);
        live_   = std::move(other.live_);
        chunks_ = std::move(other.chunks_);
        taken_  = std::exchange(other.taken_, 0);
        strewn_ = std::exchange(other.strewn_, false);
        parted_ = std::exchange(other.parted_, false);
        return *this;
    }

    /// See `free_blocks`.
    void know_memory(page_book const* pages) noexcept { free_.know_memory(pages); }

    /// Makes sure that one `take` cannot fail.
    void reserve() {
        if (!blocks_.has(3) || !tags_.has(3) || !live_.has_room()) { reserve_more(); }
    }
    [[gnu::noinline]] void reserve_more() {
        blocks_.reserve(3); // two for `take`, one for a chunk that is added in between
        tags_.reserve(3);
        live_.reserve(1);
    }

    /// A place for a request: see `free_blocks`.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price,
                           bool all) const {
        return free_.find(bytes, alignment, price, all);
    }

    /// Hands out [start, start + bytes) of a free block; what is left of it stays free. After
    /// `reserve`.
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

    /// Takes a block that costs the stream in `slot` nothing out of the front of one that is found
    /// without a search; null where there is none, or `reserve` has more to do.
    template <class Price>
    [[gnu::noinline]] block* take_quick(std::size_t bytes, std::size_t slot,
                                        Price const& price) noexcept {
        if (!blocks_.has(2) || !live_.has_room() || strewn_ || tags_.empty()) { return nullptr; }
        block* const b = free_.quick(bytes, slot, price);
        if (b == nullptr) { return nullptr; }
        if (b->bytes != bytes && b->before != nullptr) { return take_front(b, bytes); }
        return take({b, b->address}, bytes);
    }

    /// The block handed out at `p`, or null.
    [[nodiscard, gnu::always_inline]] block* live(void const* p) const noexcept {
        return live_.find(reinterpret_cast<std::uintptr_t>(p));
    }

    /// Who may still be using a block that is not in a bin, and what graphs keep of one that is
    /// out: see `block_tags`. After `reserve` there is room for one note.
    void hold(block* b, tags const& held) noexcept { tags_.hold(b, held); }
    void keep(block* b, tags const& kept) noexcept { tags_.keep(b, kept); }

    /// Takes back a block that was handed out and says who holds it, and joins it with its free
    /// neighbours where there is room for what they wait for. Returns the free block that holds it
    /// now.
    template <class Settled>
    block* give(block* b, Settled const& settled) noexcept {
        live_.erase(b);
        if (live_.size() == 0 && taken_ >= enough) { strewn_ = true; }
        return give_again(b, settled);
    }
    /// A block that was set aside, or comes back from a client, is free again: joined with its free
    /// neighbours, in place where the one stays in its bin.
    template <class Settled>
    block* give_again(block* b, Settled const& settled) noexcept {
        b->now             = block::state::free;
        block* const front = free_one(b->before);
        block* const after = free_one(b->after);
        if (front == nullptr && after == nullptr) {
            free_.insert(b);
            return b;
        }
        // The first block of a chunk stays that, and the last, where it can grow.
        if (b->before == nullptr || free_.is_tail(b)) { return join(b, settled); }
        if (after != nullptr && (front == nullptr || free_.is_tail(after))) {
            bool const both = front != nullptr;
            if (both && front->before == nullptr) { return join(b, settled); }
            if (!tags_.take_over(after, b, settled)) { return join(b, settled); }
            join_down(b, after);
            if (!both) { return after; }
            if (tags_.take_over(after, front, settled)) {
                free_.remove(front);
                join_down(front, after);
            } else {
                parted_ = true;
            }
            return after;
        }
        if (!tags_.take_over(front, b, settled)) { return join(b, settled); }
        join_up(front, b);
        if (after == nullptr) { return front; }
        if (tags_.take_over(front, after, settled)) {
            free_.remove(after);
            join_up(front, after);
        } else {
            parted_ = true;
        }
        return front;
    }

    /// Adds a chunk, free as a whole, that waits for `held`.
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

    /// The index of an idle chunk, the cheapest and among those the largest; the number of chunks
    /// if there is none that can be had.
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
    /// Takes an idle chunk out of the books.
    chunk remove(std::size_t index) noexcept {
        chunk const gone = chunks_.take(index);
        free_.remove(gone.first);
        tags_.release(gone.first);
        blocks_.put_back(gone.first);
        return gone;
    }

    /// Of few free blocks, the place that `judge(block)` finds best: see `free_blocks`.
    template <class Judge>
    [[nodiscard]] fit least(std::size_t bytes, Judge const& judge) const {
        return free_.least(bytes, judge);
    }
    /// Calls `visit(block)` for every free block of at least `bytes` that may be set aside.
    template <class Visit>
    void for_each_free(std::size_t bytes, Visit const& visit) {
        free_.for_each_from(bytes, [&](block* b) {
            if (!free_.is_tail(b) || !chunks_.around(b).busy) { visit(b); }
        }); // who moves the end of a chunk looks for the tail
    }
    /// All of a block has memory now: where it is free, it is found before those that lack some.
    void complete(block* b) noexcept {
        bool const in_bin = b->now == block::state::free;
        if (in_bin) { free_.remove(b); }
        b->bare = false;
        if (in_bin) { free_.insert(b); }
    }
    /// Nobody else gets the free block until `give_again`.
    void set_aside(block* b) noexcept {
        free_.remove(b);
        b->now = block::state::resting;
    }
    /// Sets free blocks aside, in each chunk from its end on, for as long as `taken(block)` says
    /// so. `skip(block)`: not this one.
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

    /// How a chunk's end is moved: that of the chunk at `base`, `bytes` large, by `by` bytes.
    struct move_of_end {
        void*       base  = nullptr; ///< null: none can be moved
        std::size_t bytes = 0;
        std::size_t by    = 0;
    };
    /// Where a block begins.
    struct front_of {
        [[nodiscard]] std::uintptr_t operator()(block const& b) const noexcept { return b.address; }
    };
    /// The chunk that must grow least for a request to fit at its end, behind what cannot be had,
    /// and not before `from(block)`. It is busy from here on.
    template <class Price, class From = front_of>
    [[nodiscard]] move_of_end begin_growth(std::size_t bytes, std::size_t alignment,
                                           Price const& price, From const& from = {}) noexcept {
        move_of_end least;
        chunk*      found = nullptr;
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
    /// Takes whole pages of free bytes at the end of a chunk, where they cost nothing, out of the
    /// books: few more than `most` bytes. The chunk is busy from here on.
    template <class Price>
    [[nodiscard]] move_of_end begin_shrinking(std::size_t page, std::size_t most,
                                              Price const& price) noexcept {
        std::size_t const pages = (most - 1) / page + 1;
        move_of_end       found;
        free_.for_each_tail([&](block const* tail) {
            chunk const&      c     = chunks_.around(tail);
            std::size_t const there = tail->bytes / page;
            std::size_t const by    = (there < pages ? there : pages) * page;
            if (c.busy || found.base != nullptr || by == 0 || by == c.bytes) { return; }
            if (free_blocks::priced(*tail, price) == availability::ready) {
                found = {c.base, c.bytes, by};
            }
        });
        if (found.base != nullptr) { move_end(found.base, std::size_t{0} - found.by, true, false); }
        return found;
    }
    /// The end of a busy chunk has moved by `by` more bytes, or not at all; `bare`: there is no
    /// memory yet.
    void end_move(void const* base, std::size_t by, bool bare = false) noexcept {
        move_end(base, by, false, bare);
    }

    /// Every block came back, from many: they may lie there in pieces that wait for different
    /// streams. Put together the heap is as new, and a program that repeats itself finds the same
    /// places again. Said once.
    [[nodiscard]] bool was_strewn() noexcept {
        if (!strewn_) { return false; }
        taken_ = 0;
        return std::exchange(strewn_, false);
    }
    /// `tidy`, also where no neighbours are apart: who waited for streams that are done waits no
    /// more.
    template <class Settled>
    void put_together(Settled const& settled) noexcept {
        parted_ = true;
        tidy(settled);
    }

    /// Whether there may be free neighbours that could not be joined.
    [[nodiscard]] bool parted() const noexcept { return parted_; }
    /// Joins free neighbours that could not be joined before, and drops settled tags on the way.
    /// Cost: a walk over all blocks, where there may be such neighbours.
    template <class Settled>
    void tidy(Settled const& settled) noexcept {
        if (!std::exchange(parted_, false)) { return; }
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                if (b->now != block::state::free) { continue; }
                tags_.refresh(b, settled);
                free_.remove(b);
                while (join_after(b, settled)) {}
                free_.insert(b);
            }
        }
    }

    /// What graphs kept of free blocks waits until `epoch(slot)` from now on. What they kept of
    /// those that are out they have given up.
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

    /// Whatever the stream in `slot` may still be using is kept for a graph that is captured on it.
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
    static constexpr std::size_t enough = 64; ///< blocks are worth an event

    /// Nobody uses what is new at the end of a chunk.
    void move_end(void const* base, std::size_t by, bool busy, bool bare) noexcept {
        chunk& c    = chunks_.at(base);
        block* tail = nullptr;
        free_.for_each_tail([&](block* b) { tail = b->end() == c.end() ? b : tail; });
        tags const held = tail->waits_for();
        tail->bytes += by;
        tail->bare = (tail->bare || (bare && by != 0)) && tail->bytes != 0;
        chunks_.extend(c, by);
        c.busy          = busy;
        tags const left = held.within(tail->address, tail->end());
        if (left.empty() || tail->slot == block::several || !tags_.empty()) {
            tags_.hold(tail, left);
        }
    }

    block* hand_out(block* b) noexcept {
        b->now  = block::state::live;
        b->bare = false;
        b->slot = block::nobody;
        live_.insert(b);
        ++taken_;
        return b;
    }
    /// Hands out the first bytes of a free block that is not all of it, nor the first of its chunk.
    /// The rest keeps the note, and nearly always the bin.
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
    /// `take` where parts of the block wait for different things.
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

    /// Shortens `b`, which is free and in no bin, to `bytes` and returns a new block, free and in
    /// no bin, for the rest; one stream, or nobody, holds both.
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

    /// A neighbour, if it is free.
    [[nodiscard]] static block* free_one(block* b) noexcept {
        return b != nullptr && b->now == block::state::free ? b : nullptr;
    }
    /// Joins `b`, in no bin, to the block before it, which is in one and has taken over what `b`
    /// waits for.
    [[gnu::always_inline]] block* join_up(block* front, block* b) noexcept {
        front->bare = front->bare || b->bare;
        free_.resize(front, front->bytes + b->bytes);
        front->after = b->after;
        if (front->after != nullptr) { front->after->before = front; }
        blocks_.put_back(b);
        return front;
    }
    /// Joins `b`, in no bin and not the first of its chunk, to the block after it, which is in one
    /// and has taken over what `b` waits for.
    [[gnu::always_inline]] block* join_down(block* b, block* after) noexcept {
        after->bare = after->bare || b->bare;
        free_.resize(after, after->bytes + b->bytes);
        after->address   = b->address;
        after->before    = b->before;
        b->before->after = after;
        blocks_.put_back(b);
        return after;
    }
    /// Joins `b`, in no bin, with what is free beside it, where there is room for what they wait
    /// for.
    template <class Settled>
    block* join(block* b, Settled const& settled) noexcept {
        join_after(b, settled);
        block* const front = free_one(b->before);
        if (front == nullptr) {
            free_.insert(b);
            return b;
        }
        free_.remove(front);
        bool const joined = absorb(front, settled);
        free_.insert(front);
        if (joined) { return front; }
        free_.insert(b);
        parted_ = true;
        return b;
    }

    /// Joins the block after `b` to `b`, both in no bin, if what both wait for can be noted.
    template <class Settled>
    bool absorb(block* b, Settled const& settled) noexcept {
        block* const gone = b->after;
        if (!tags_.take_over(b, gone, settled)) { return false; }
        b->bytes += gone->bytes;
        b->bare  = b->bare || gone->bare;
        b->after = gone->after;
        if (b->after != nullptr) { b->after->before = b; }
        blocks_.put_back(gone);
        return true;
    }
    /// `absorb` where the block after `b`, if there is one, may be handed out, or is in its bin.
    template <class Settled>
    bool join_after(block* b, Settled const& settled) noexcept {
        block* const after = free_one(b->after);
        if (after == nullptr) { return false; }
        free_.remove(after);
        if (absorb(b, settled)) { return true; }
        free_.insert(after);
        parted_ = true;
        return false;
    }

    free_blocks       free_;
    note_store<block> blocks_;
    block_tags        tags_;
    block_table       live_;
    block_chunks      chunks_;
    std::size_t       taken_  = 0; ///< blocks since all were put together
    bool              strewn_ = false;
    bool              parted_ = false; ///< free neighbours could not be joined, since all were
    bool              apart_;
};

} // namespace vram
