// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `paged_heap` is a `stream_heap` with blocks that may lack physical memory on some pages.

#include <vram/order/core/availability.hpp>
#include <vram/pool/core/block_request.hpp>
#include <vram/pool/core/page_book.hpp>
#include <vram/pool/core/stream_heap.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// The heap of a pool over virtual memory, in which physical memory is mapped to addresses and
/// removed page by page. A block is *unbacked* if some of its pages may have no memory. A caller
/// that takes such a block must have memory mapped to it before it becomes live.
///
/// Failure   The functions fail as those of `stream_heap`.
/// Threads   One thread at a time, which holds the pool's lock.
/// Cost      `take_unbacked` looks at a few candidates. `for_each_ready` and the search of
///           `set_aside` may look at every free block.
template <class Platform>
class paged_heap : public stream_heap<Platform, true> {
    using base = stream_heap<Platform, true>;

public:
    using typename base::guard;
    using typename base::request;
    using typename base::stream;

    using base::base;

    /// Sets the pool's table of the pages that have physical memory. Without the table, blocks that
    /// lack memory on some pages are not allocated.
    void know_memory(page_book const* pages) noexcept { this->heaps().know_memory(pages); }

    using judged = block_heap::judged;

    /// Reserves a free block for the request `r`; its pages may lack memory. `judge(block)` returns
    /// a place in a block and the cost of mapping memory there. Among some candidates, takes the
    /// cheapest that the stream of `r` (or the host, for a request without a stream) may use
    /// without a wait. If there is none, takes the cheapest of the others, and makes the stream (or
    /// the host, with the lock `held` released) wait for the streams that may still use the block;
    /// during a capture, returns null instead. Also returns null if no block is suitable. The block
    /// does not count as live until `filled`; `return_unbacked` returns it unused.
    template <class Judge>
    block* take_unbacked(request const& r, guard& held, Judge const& judge) {
        block_heap& heap = this->heaps().of(r.bytes);
        // Coalescing the cached blocks may use descriptors (records of blocks), so host memory for
        // more descriptors is reserved afterwards.
        this->flush_quick_lists();
        heap.reserve();
        timeline* const mine     = r.on != nullptr ? &this->timelines().of(*r.on) : nullptr;
        bool const      captured = base::arbiter::is_captured(r.on);
        // During a capture, a block counts as ready only if no stream may still access it: memory
        // may be mapped to the block now, before the captured work runs.
        auto const price = this->timelines().for_asker(captured ? nullptr : mine, false);
        auto const part  = [&](block const& b, auto start) {
            return b.waits_for().within(start, start + r.bytes);
        };
        for (auto const most : {availability::ready, availability::needs_wait}) {
            auto place = heap.least(r.bytes, [&](block const& b) {
                judged const found = judge(b);
                bool const   none  = found.cost == judged::none;
                return none || price(part(b, found.start)) > most ? judged{} : found;
            });
            if (place.where == nullptr && !captured) { continue; }
            // No block is ready, and a stream that is being captured must not wait.
            if (place.where == nullptr) { break; }
            tags const   before = part(*place.where, place.start);
            bool const   ready  = price(before) == availability::ready;
            candidates   found{this->cache_, this->arbiter_, nullptr, heap, r};
            block* const b = ready ? found.take(place, false)
                                   : this->arbiter_.take_after_wait(found, place, mine, held);
            if (b == nullptr) { return nullptr; }
            // `take` has dropped the pending uses `before` of the block. They are stored again for
            // the case that no memory can be mapped to the block: it is then freed with these uses.
            // If the host has waited for the streams (not `ready`, and `mine` is null), no use is
            // left.
            if (ready || mine != nullptr) { heap.hold(b, before); }
            return b;
        }
        return nullptr;
    }
    /// Makes a block live that `take_unbacked` has reserved, after memory was mapped to all of its
    /// pages. Returns its address.
    void* filled(block* b) noexcept {
        this->heaps().of(*b).hold(b, tags{});
        return candidates::made_live(b, this->counts_)->pointer();
    }
    /// Records that a block has all its physical memory, after memory was mapped to the pages that
    /// lacked it.
    void complete(block* b) noexcept { this->heaps().of(*b).complete(b); }
    /// Gives a block that `take_unbacked` has reserved back to the heap, because no memory could be
    /// mapped. If parts of the block have memory that only the stream `on` may use (null: any
    /// stream may), the block is freed on that stream. If that use can be neither recorded nor
    /// waited for, the block is not freed, and its `there` bytes with memory stay live.
    void return_unbacked(block* b, stream const* on, std::size_t there) noexcept {
        b->unbacked = true;
        if (on != nullptr) {
            // The pending uses by other streams are dropped, because the stream `on` was already
            // made to wait for them. The next call records that `on` may use the block.
            this->heaps().of(*b).hold(b, tags{});
            if (this->record_free(*on, b, false) == base::freed::lost) {
                return this->counts_.keep_out(there);
            }
        }
        this->heaps().of(*b).give(b, this->is_complete());
    }
    /// Records that the stream `s` may use memory that is mapped to [from, to), the pages around
    /// the block `b`. A stream that later gets a free neighbour of `b` on these pages then waits
    /// for `s`. Returns false if that cannot be recorded for some neighbour.
    [[nodiscard]] bool share(block* b, std::uintptr_t from, std::uintptr_t to, stream s) {
        timeline&   c    = this->timelines().of(s);
        block_heap& heap = this->heaps().of(*b);
        auto const  note = [&](block* beside) {
            heap.reserve();
            std::uintptr_t const first = beside->address > from ? beside->address : from;
            std::uintptr_t const last  = beside->end() < to ? beside->end() : to;
            tags                 held  = beside->waits_for();
            if (!held.merge(tags{{first, last, c.epoch_of_free(), c.slot()}},
                             this->is_complete())) {
                return false;
            }
            heap.hold(beside, held);
            return true;
        };
        for (block* n = b->before; n != nullptr && n->end() > from; n = n->before) {
            if (!note(n)) { return false; }
        }
        for (block* n = b->after; n != nullptr && n->address < to && n->bytes != 0; n = n->after) {
            if (!note(n)) { return false; }
        }
        this->arbiter_.record_if_eager(c);
        return true;
    }
    /// Returns true if a free block, in the heap (small or large blocks) for requests of `bytes`,
    /// may contain a whole page once all streams are done. Only the memory of whole pages can be
    /// mapped elsewhere, so if the result is false, a wait for the streams would find no memory.
    [[nodiscard]] bool may_have_pages(std::size_t bytes, std::size_t page) noexcept {
        this->flush_quick_lists();
        block_heap const& heap = this->heaps().of(bytes);
        return heap.largest_free() >= page || heap.has_uncoalesced();
    }
    /// Returns the function that tells if the stream `on` (null: the host) may use a free block at
    /// once, after a wait, or not at all.
    [[nodiscard]] auto price_for(stream const* on) {
        return this->timelines().for_asker(on != nullptr ? &this->timelines().of(*on) : nullptr,
                                           false);
    }
    /// Calls `visit(block)` for the free blocks of at least `least` bytes that may be used without
    /// a wait, in the heap (small or large blocks) for requests of `bytes`.
    template <class Price, class Visit>
    void for_each_ready(std::size_t bytes, std::size_t least, Price const& price,
                        Visit const& visit) {
        this->flush_quick_lists();
        this->heaps().of(bytes).for_each_free(least, [&](block* b) {
            if (block_places::priced(*b, price) == availability::ready) { visit(b); }
        });
    }
    /// Removes a free block from its bin (free list by size), so that no request can use it until
    /// `give_again`.
    void set_aside(block* b) noexcept { this->heaps().of(*b).set_aside(b); }
    /// In the heap (small or large blocks) for requests of `bytes`, removes free blocks from their
    /// bins (free lists by size), and calls `taken(block)` for each, until `taken` returns false.
    /// In each chunk, begins with the last block. Removes only blocks that are ready (need no wait)
    /// according to `price`, and for which `wanted(block)` returns true. `bytes` does not limit the
    /// size of the blocks.
    template <class Price, class Wanted, class Taken>
    void set_aside(std::size_t bytes, Price const& price, Wanted const& wanted,
                   Taken const& taken) {
        this->flush_quick_lists();
        this->heaps().of(bytes).set_aside(
            [&](block const& b) {
                return !wanted(b) || block_places::priced(b, price) != availability::ready;
            },
            taken);
    }
    /// Puts a block that `set_aside` has removed back into its bin (free list by size). `unbacked`:
    /// some of its pages have no memory now.
    void give_again(block* b, bool unbacked) noexcept {
        b->unbacked = unbacked;
        this->heaps().of(*b).give_again(b, this->is_complete());
    }

private:
    using typename base::candidates;
    using typename base::timeline;
};

} // namespace detail
} // namespace vram
