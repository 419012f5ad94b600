// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_places` finds the place for a request within one free block.

#include <vram/base/align.hpp> // align, align_down
#include <vram/order/core/availability.hpp>
#include <vram/order/core/tags.hpp>
#include <vram/pool/core/block.hpp>
#include <vram/pool/core/page_book.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// Finds places for a request in free blocks. `price(use)` returns when the asking stream may use
/// memory with this pending use (an earlier user stream): now, after a wait, or never.
///
/// Threads   One thread at a time.
/// Cost      Constant: a block has at most `tags::most` pending uses.
class block_places {
public:
    /// A place for a request. `cost` tells if the asking stream may use the place now, after a
    /// wait, or not at all.
    struct fit {
        block*         where   = nullptr;
        std::uintptr_t start   = 0;
        availability   cost    = availability::ready;
        block*         tighter = nullptr; ///< a better fitting block that needs a wait, or null
    };

    /// Sets the table that records which pages have physical memory. Without one (null), no place
    /// is found in a free block marked `unbacked`.
    void know_memory(page_book const* pages) noexcept { pages_ = pages; }

    /// Returns the lowest address in `b` from which the asking stream may use all bytes to
    /// `b.end()`, now or after a wait; `b.end()` if none.
    template <class Price>
    static std::uintptr_t usable_from(block const& b, Price const& price) {
        if (b.slot != block::several) {
            return priced(b, price) == availability::unavailable ? b.end() : b.address;
        }
        std::uintptr_t from = b.address;
        for (tag const& t : b.note->what) {
            if (t.end > from && price(tags{t}) == availability::unavailable) { from = t.end; }
        }
        return from;
    }
    /// Rates the whole block `b` by its pending uses: the asking stream may use it now, after a
    /// wait, or not at all. Ignores whether it has physical memory.
    template <class Price>
    static availability priced(block const& b, Price const& price) {
        if (b.slot == block::nobody) { return availability::ready; }
        return b.slot == block::several ? price(b.note->what) : price(b.slot, b.epoch);
    }
    /// Returns true if the first `bytes` of a block have physical memory and the asking stream may
    /// use them without a wait.
    template <class Price>
    [[nodiscard, gnu::noinline]] bool costs_nothing(block const& b, std::size_t bytes,
                                                    Price const& price) const noexcept {
        if (lacks_memory(b, b.address, bytes)) { return false; }
        if (b.slot != block::several) { return priced(b, price) == availability::ready; }
        return priced(b.note->what, b.address, b.address + bytes, price) == availability::ready;
    }
    /// Returns the place in a chunk's last block `b` that the stream may use soonest: at its start,
    /// or at the end of a pending use. `cost` is `unavailable` if none is usable.
    template <class Price>
    fit in_tail(block* b, std::size_t bytes, std::size_t alignment, Price const& price) const {
        fit best = at_front(b, bytes, alignment, price);
        if (best.cost == availability::ready || b->slot != block::several) { return best; }
        for (tag const& t : b->note->what) {
            fit const  place = behind(b, t.end, bytes, alignment, price);
            bool const lower = place.cost == best.cost && place.start < best.start;
            if (place.cost < best.cost || (lower && place.cost != availability::unavailable)) {
                best = place;
            }
        }
        return best;
    }
    /// Returns a place at the front of `b` or, in some cases, one at its end that the stream may
    /// use sooner. The place is unusable if its `cost` is `unavailable`.
    template <class Price>
    fit placed(block* b, std::size_t bytes, std::size_t alignment, Price const& price) const {
        fit const front = at_front(b, bytes, alignment, price);
        if (front.cost == availability::ready || front.where == nullptr ||
            b->slot != block::several) {
            return front;
        }
        tags const&          held = b->note->what;
        std::uintptr_t const last = align_down(b->end() - bytes, alignment);
        fit const            back{b, last, priced(held, last, last + bytes, price)};
        if (back.cost < front.cost && !lacks_memory(*b, last, bytes)) { return back; }
        return front.cost < availability::unavailable ? front
                                                      : fit{.cost = availability::unavailable};
    }

private:
    /// Tells if the asking stream may use the addresses [from, to) of a block with the pending uses
    /// `held`: now, after a wait, or not at all.
    template <class Price>
    static availability priced(tags const& held, std::uintptr_t from, std::uintptr_t to,
                               Price const& price) {
        auto worst = availability::ready;
        for (tag const& t : held) {
            if (!t.overlaps(from, to)) { continue; }
            availability const one = price(t.slot, t.epoch);
            worst                  = one > worst ? one : worst;
        }
        return worst;
    }
    /// Returns true if some of the `bytes` at `from` may have no physical memory.
    [[nodiscard]] bool lacks_memory(block const& b, std::uintptr_t from,
                                    std::size_t bytes) const noexcept {
        if (!b.unbacked) [[likely]] { return false; }
        return pages_ == nullptr || !pages_->complete(from, from + bytes);
    }
    template <class Price>
    fit at_front(block* b, std::size_t bytes, std::size_t alignment, Price const& price) const {
        return behind(b, b->address, bytes, alignment, price);
    }
    /// Returns the place for `bytes` at the first aligned address in `b` from `from` on. `where` is
    /// null if `b` is too short, or may lack physical memory there.
    template <class Price>
    fit behind(block* b, std::uintptr_t from, std::size_t bytes, std::size_t alignment,
               Price const& price) const {
        std::uintptr_t const start = align(from, alignment);
        if (start > b->end() || b->end() - start < bytes || lacks_memory(*b, start, bytes)) {
            return {.cost = availability::unavailable};
        }
        if (b->slot != block::several) { return {b, start, priced(*b, price)}; }
        return {b, start, priced(b->note->what, start, start + bytes, price)};
    }

    page_book const* pages_ = nullptr; ///< the pool's table of pages that have physical memory
};

} // namespace detail
} // namespace vram
