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
/// memory with this pending use (a stream that may still access it): now, after a wait, or never.
///
/// Threads   One thread at a time.
/// Cost      Constant: a block has at most `tags::most` pending uses.
class block_places {
public:
    /// A place for a request. `cost` tells if the asking stream may use the place now, after a
    /// wait, or not at all.
    struct fit {
        block*         where = nullptr;
        std::uintptr_t start = 0;
        availability   cost  = availability::ready;
        /// A free block that fits better than `where`, but needs a wait. Null if there is none.
        block* tighter = nullptr;
    };

    /// Sets the table that records which pages have physical memory. If `pages` is null, no place
    /// is found in a free block marked `unbacked` (pages may lack memory).
    void know_memory(page_book const* pages) noexcept { pages_ = pages; }

    /// Returns the lowest address in `b` from which the asking stream may use all bytes to the end
    /// of `b`, now or after a wait. If there is no such address, returns `b.end()`.
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
    /// Returns when the pending uses of `b` allow the asking stream to use the whole block: now,
    /// after a wait, or never. Does not check if the block has physical memory.
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
    /// Returns the place in a chunk's last block `b` that the asking stream may use soonest. Tries
    /// the start of `b`, and the end of each pending use (by a stream that may still access `b`).
    /// If no place is usable, `cost` is `unavailable`.
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
    /// Returns a place for `bytes` at the front of `b`, or at the end of `b` if the asking stream
    /// can use the end sooner. If neither place is usable, `cost` of the result is `unavailable`.
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
    /// Returns when the asking stream may use the addresses [from, to) of a block: now, after a
    /// wait, or never. `held`: the pending uses of the block (streams that may still access it).
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
    /// Returns the place for `bytes` at the first aligned address in `b` that is not below `from`.
    /// If `bytes` do not fit there or may lack physical memory, `where` is null.
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
