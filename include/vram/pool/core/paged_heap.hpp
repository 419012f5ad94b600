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

/// The heap of a pool over virtual memory. An `unbacked` block may lack physical memory on some
/// pages. Before such a block becomes live, the caller must map memory to all its pages.
///
/// Threads   One thread at a time, which holds the pool's lock.
template <class Platform>
class paged_heap : public stream_heap<Platform, true> {
    using base = stream_heap<Platform, true>;

public:
    using typename base::guard;
    using typename base::request;
    using typename base::stream;

    using base::base;

    /// Sets the table of the pages that have physical memory. If `pages` is null, only
    /// `take_unbacked` uses free blocks marked `unbacked` (some of their pages may lack memory).
    void know_memory(page_book const* pages) noexcept { this->heaps().know_memory(pages); }

    using judged = block_heap::judged;

    /// Reserves a free block for `r`. `judge(block)` returns the best place in a block and its
    /// cost. May wait for streams. Returns null on failure. The caller must map memory to all pages
    /// of the block and call `filled`. If mapping fails, it must call `return_unbacked`.
    template <class Judge>
    block* take_unbacked(request const& r, guard& held, Judge const& judge) {
        block_heap& heap = this->heaps().of(r.bytes);
        // Coalesces all cached blocks. This may use up descriptors (records of blocks) that
        // `reserve` provides, so this call comes before `reserve`.
        this->flush_quick_lists();
        heap.reserve();
        timeline* const mine     = r.on != nullptr ? &this->timelines().of(*r.on) : nullptr;
        bool const      captured = base::arbiter::is_captured(r.on);
        // `price(uses)` tells when `r` may use memory with these pending uses. A captured stream
        // gets only memory that no stream uses, because its work runs later than the mapping.
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
            // A captured stream cannot wait, so it gets only a block that is ready.
            if (place.where == nullptr) { break; }
            tags const   before = part(*place.where, place.start);
            bool const   ready  = price(before) == availability::ready;
            candidates   found{this->cache_, this->arbiter_, nullptr, heap, r};
            block* const b = ready ? found.take(place, false)
                                   : this->arbiter_.take_after_wait(found, place, mine, held);
            if (b == nullptr) { return nullptr; }
            // `take` has removed the record of the block's pending uses. `return_unbacked` needs
            // this record. It is not needed if the host has waited for the uses.
            if (ready || mine != nullptr) { heap.hold(b, before); }
            return b;
        }
        return nullptr;
    }
    /// Makes a block from `take_unbacked` live after memory was mapped to all of its pages. Returns
    /// its address.
    void* filled(block* b) noexcept {
        this->heaps().of(*b).hold(b, tags{});
        return candidates::made_live(b, this->counts_)->pointer();
    }
    /// Records that all pages of the block have physical memory.
    void complete(block* b) noexcept { this->heaps().of(*b).complete(b); }
    /// Frees a block from `take_unbacked`. If `on` is not null, this stream may still use the
    /// block. `there` is the number of bytes of the block that have physical memory.
    void return_unbacked(block* b, stream const* on, std::size_t there) noexcept {
        b->unbacked = true;
        if (on != nullptr) {
            // All pending uses of the block end before the next operation of `on` runs. So one use
            // by `on` replaces them.
            this->heaps().of(*b).hold(b, tags{});
            if (this->record_free(*on, b, false) == base::freed::lost) {
                return this->counts_.keep_out(there);
            }
        }
        this->heaps().of(*b).give(b, this->is_complete());
    }
    /// Records that work of the stream `s` may use all addresses in [from, to) outside the block
    /// `b`. These must belong to free blocks. Returns false if a block cannot store the record.
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
    /// Returns true if a free block may contain a whole page, perhaps only after blocks are
    /// coalesced. `bytes` is a size that selects the heap for small or for large blocks.
    [[nodiscard]] bool may_have_pages(std::size_t bytes, std::size_t page) noexcept {
        this->flush_quick_lists();
        block_heap const& heap = this->heaps().of(bytes);
        return heap.largest_free() >= page || heap.has_uncoalesced();
    }
    /// Returns a function `price(uses)`. The function tells when the stream `on` (null: the host)
    /// may use memory with these pending uses: now (`ready`), after a wait, or never.
    [[nodiscard]] auto price_for(stream const* on) {
        return this->timelines().for_asker(on != nullptr ? &this->timelines().of(*on) : nullptr,
                                           false);
    }
    /// Calls `visit(block)` for each free block of at least `least` bytes that needs no wait, as
    /// `price` (from `price_for`) tells. `bytes` is a size that selects the heap for small or for
    /// large blocks.
    template <class Price, class Visit>
    void for_each_ready(std::size_t bytes, std::size_t least, Price const& price,
                        Visit const& visit) {
        this->flush_quick_lists();
        this->heaps().of(bytes).for_each_free(least, [&](block* b) {
            if (block_places::priced(*b, price) == availability::ready) { visit(b); }
        });
    }
    /// Removes a free block from its free list, so that no request uses it until `give_again`.
    void set_aside(block* b) noexcept { this->heaps().of(*b).set_aside(b); }
    /// Removes free blocks from their free lists and calls `taken(block)` for each, until `taken`
    /// returns false. Takes only blocks that `wanted(block)` accepts and that need no wait, as
    /// `price` tells. `bytes` is a size that selects the heap for small or for large blocks.
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
    /// Makes a block free again after `set_aside`, so that requests can use it. `unbacked`: true if
    /// some of its pages now lack physical memory.
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
