// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `paged_heap` is a `stream_heap` of addresses, of which parts may have no memory.

#include <vram/pool/availability.hpp>  // availability
#include <vram/pool/block_request.hpp> // block_request
#include <vram/pool/page_book.hpp>     // page_book
#include <vram/pool/stream_heap.hpp>   // stream_heap

#include <cstddef> // size_t
#include <cstdint> // uintptr_t

namespace vram {

/// What a pool does where memory comes to addresses and leaves them by pages. A block is *bare*
/// where some of it may have none: whoever takes such a block has it filled before it is handed
/// out.
///
/// Failure   as `stream_heap`
/// Threads   one at a time, who holds the lock
/// Cost      that of a few candidates for a block; `set_aside` looks at every free block
template <class Platform>
class paged_heap : public stream_heap<Platform, true> {
    using base = stream_heap<Platform, true>;

public:
    using typename base::guard;
    using typename base::request;
    using typename base::stream;

    using base::base;

    /// Where in a `bare` block there is memory; see `free_blocks`.
    void know_memory(page_book const* pages) noexcept { this->heaps_.know_memory(pages); }

    using judged = block_heap::judged;

    /// A block for a request, at the place that `judge(block)` finds best among some candidates
    /// that wait for nobody, or else among any. Null where it finds none. Nobody else has the block
    /// until it is `filled`, or given back.
    template <class Judge>
    block* take_bare(request const& r, guard& held, Judge const& judge) {
        block_heap& heap = this->heaps_.of(r.bytes);
        this->cool(); // which may use up notes
        heap.reserve();
        clock* const mine     = r.on != nullptr ? &this->clocks_.of(*r.on) : nullptr;
        bool const   captured = mine != nullptr && Platform::capturing(*r.on);
        // Other memory may be mapped there, which only the host can know to be out of use.
        auto const price = this->clocks_.for_asker(captured ? nullptr : mine, false);
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
            if (place.where == nullptr) { break; } // which must not wait
            tags const   before = part(*place.where, place.start);
            bool const   ready  = price(before) == availability::ready;
            block* const b      = ready ? this->hand_out_uncounted(r, place)
                                        : this->ordered_uncounted(r, place, mine, held);
            if (b == nullptr) { return nullptr; }
            if (ready || mine != nullptr) { heap.hold(b, before); } // should it go back
            return b;
        }
        return nullptr;
    }
    /// Such a block has memory now, and is its client's.
    void* filled(block* b) noexcept {
        this->heaps_.of(*b).hold(b, tags{});
        return this->counted(b)->pointer();
    }
    /// All of a block has memory now, of which some had none.
    void complete(block* b) noexcept { this->heaps_.of(*b).complete(b); }
    /// Such a block goes back: its memory could not be had. Where it has some that only `on` may
    /// use (null: anybody), that stream gives it back; if that cannot be noted, nor be waited for,
    /// those bytes, `there`, stay out.
    void give_bare(block* b, stream const* on, std::size_t there) noexcept {
        b->bare = true;
        if (on != nullptr) {
            this->heaps_.of(*b).hold(b, tags{}); // the stream is behind those
            if (this->freed_on(*on, b) == base::freed::lost) { return this->keep_out(there); }
        }
        this->heaps_.of(*b).give(b, this->settled());
    }
    /// Memory that `s` may use at once comes to [from, to), where such a block lies: whoever takes
    /// a free block beside it there comes after that stream. False: of one of them that cannot be
    /// noted.
    [[nodiscard]] bool share(block* b, std::uintptr_t from, std::uintptr_t to, stream s) {
        clock&      c    = this->clocks_.of(s);
        block_heap& heap = this->heaps_.of(*b);
        auto const  note = [&](block* beside) {
            heap.reserve();
            std::uintptr_t const first = beside->address > from ? beside->address : from;
            std::uintptr_t const last  = beside->end() < to ? beside->end() : to;
            tags                 held  = beside->waits_for();
            if (!held.merge(tags{{first, last, c.mark(), c.slot()}}, this->settled())) {
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
        if (this->events_ == event_policy::eager) { c.try_record(); }
        return true;
    }
    /// Whether a free block among those of `bytes` could have a page of its own, once the streams
    /// are done: else nobody need be waited for.
    [[nodiscard]] bool may_have_pages(std::size_t bytes, std::size_t page) noexcept {
        this->cool();
        block_heap const& heap = this->heaps_.of(bytes);
        return heap.largest_free() >= page || heap.parted();
    }
    /// What free blocks cost `on` (null: the host, at once).
    [[nodiscard]] auto price_for(stream const* on) {
        return this->clocks_.for_asker(on != nullptr ? &this->clocks_.of(*on) : nullptr, false);
    }
    /// Calls `visit(block)` for the free blocks of at least `least` bytes, among those of `bytes`,
    /// that cost nothing.
    template <class Price, class Visit>
    void for_each_ready(std::size_t bytes, std::size_t least, Price const& price,
                        Visit const& visit) {
        this->cool();
        this->heaps_.of(bytes).for_each_free(least, [&](block* b) {
            if (free_blocks::priced(*b, price) == availability::ready) { visit(b); }
        });
    }
    /// Nobody else gets a free block until `give_again`.
    void set_aside(block* b) noexcept { this->heaps_.of(*b).set_aside(b); }
    /// Sets free blocks aside among those of `bytes` that cost nothing, from the ends of chunks on,
    /// for as long as `taken(block)` says so, and only those that are `wanted(block)`.
    template <class Price, class Wanted, class Taken>
    void set_aside(std::size_t bytes, Price const& price, Wanted const& wanted,
                   Taken const& taken) {
        this->cool();
        this->heaps_.of(bytes).set_aside(
            [&](block const& b) {
                return !wanted(b) || free_blocks::priced(b, price) != availability::ready;
            },
            taken);
    }
    /// One of those is free again; `bare`: with less memory than it has addresses.
    void give_again(block* b, bool bare) noexcept {
        b->bare = bare;
        this->heaps_.of(*b).give_again(b, this->settled());
    }

private:
    using typename base::clock;
};

} // namespace vram
