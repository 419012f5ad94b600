// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `free_blocks` is the index of the free blocks of a heap: it finds the best block for a request.

#include <vram/order/core/availability.hpp>
#include <vram/pool/core/bins.hpp>
#include <vram/pool/core/block.hpp>
#include <vram/pool/core/block_list.hpp>
#include <vram/pool/core/block_places.hpp>
#include <vram/pool/core/page_book.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The free blocks of a heap, in bins (free lists) by size. The last block of a chunk that can grow
/// is used only if the search finds no other without a wait, so that chunks stay short (the
/// "wilderness" of Korn and Vo, 1985).
///
/// Threads   One thread at a time.
/// Cost      Constant for `insert` and `remove`, bounded for `quick`.
class free_blocks {
public:
    using fit = block_places::fit;

    /// Above this size, a request queries streams before it divides a larger free block. A smaller
    /// block may no longer be in use. For smaller requests, this query costs too much.
    static constexpr std::size_t worth_asking = std::size_t{1} << 20;

    /// `in_place`: the chunks of the heap can grow at their ends.
    explicit free_blocks(bool in_place = false) noexcept : in_place_{in_place} {}
    free_blocks(free_blocks&& other) noexcept { *this = static_cast<free_blocks&&>(other); }
    free_blocks& operator=(free_blocks&& other) noexcept {
        if (this == &other) { return *this; }
        bins_     = std::move(other.bins_);
        in_place_ = other.in_place_;
        tails_.take(other.tails_);
        return *this;
    }

    /// Sets the table that records which pages have physical memory. With a null table, `find` and
    /// `quick` skip blocks marked `unbacked` (some of their pages may have no memory).
    void know_memory(page_book const* pages) noexcept { places_.know_memory(pages); }

    /// Returns true if the free block `b` is the last one of a chunk that can grow.
    [[nodiscard]] bool is_tail(block const* b) const noexcept {
        return in_place_ && b->after == nullptr;
    }
    /// Adds a free block to the list for its size. The last block of a chunk that can grow is added
    /// to `tails_` instead. Call `remove` before a block becomes the last one of its chunk, and
    /// before it stops being the last one.
    void insert(block* b) noexcept {
        if (in_place_) { return insert_in_place(b); }
        bins_.insert(b);
    }
    void remove(block* b) noexcept {
        if (b->bin == among_tails) { return block_list::remove(b); }
        bins_.remove(b);
    }

    void resize(block* b, std::size_t bytes) noexcept {
        if (b->bin == among_tails) {
            b->bytes = bytes;
        } else if (b->unbacked) [[unlikely]] {
            bins_.remove(b);
            b->bytes = bytes;
            bins_.insert_last(b);
        } else {
            bins_.resize(b, bytes);
        }
    }

    /// Searches for a place for a request, if possible one that needs no wait. If there is no
    /// place, `where` of the result is null. If `all` is false, examines only some blocks.
    /// `price(use)` tells when the asking stream may use memory with this pending use: now, after a
    /// wait, or never.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price,
                           bool all) const {
        fit best = find_in_bins(bytes, alignment, price, all);
        if (!in_place_ || (best.where != nullptr && best.cost == availability::ready)) {
            return best;
        }
        for (block* b = tails_.front(); b != nullptr; b = tails_.after(b)) {
            fit place = places_.in_tail(b, bytes, alignment, price);
            if (place.cost >= best.cost) { continue; }
            if (place.cost == availability::ready) { place.tighter = best.where; }
            best = place;
        }
        return best;
    }

    /// Fast version of `find` for the default alignment. Returns a block in which the stream with
    /// the index `slot` may use the first `bytes` without a wait. Examines only a few blocks. If
    /// the result is null, the caller must call `find`.
    template <class Price>
    [[nodiscard]] block* quick(std::size_t bytes, std::size_t slot, Price const& price) const {
        std::size_t const own = bins::of(bytes);
        std::size_t       i   = bins_.next(own);
        block*            b   = front_of(i);
        if (b == nullptr) { return nullptr; }
        if (b->bytes < bytes) { // The bin (free list) of this size also contains smaller blocks.
            i = bins_.next(own + 1);
            b = front_of(i);
            if (b == nullptr || b->bytes < bytes) { return nullptr; }
        }
        if (free_for(*b, slot)) [[likely]] { return b; }
        return b->unbacked                               ? past_unbacked(i, bytes, price)
               : places_.costs_nothing(*b, bytes, price) ? b
                                                         : nullptr;
    }

    /// The best place for a request in one free block, and the cost of this place. A lower cost is
    /// better.
    struct judged {
        /// Cost of a block that has no suitable place.
        static constexpr std::size_t none = ~std::size_t{0};

        std::uintptr_t start = 0;
        std::size_t    cost  = none;
    };
    /// Calls `judge(block)` for at most 65 free blocks of at least `bytes`. Returns the place with
    /// the lowest cost. In the result, `where` is null if no block has a suitable place.
    template <class Judge>
    [[nodiscard]] fit least(std::size_t bytes, Judge const& judge) const {
        std::size_t least = judged::none;
        std::size_t left  = 64;
        fit         best{.cost = availability::unavailable};
        auto const  look = [&](block* b) {
            if (b->bytes < bytes) { return; }
            --left;
            judged const found = judge(*b);
            if (found.cost >= least) { return; }
            least = found.cost;
            best  = {b, found.start};
        };
        for (auto i = bins_.next(bins::of(bytes)); i != bins::count && left != 0 && least != 0;
             i      = bins_.next(i + 1)) {
            for (block* b = bins_.front(i); b != nullptr && left != 0; b = bins_.after(i, b)) {
                look(b);
            }
        }
        if (best.where != nullptr) { return best; }
        left = 1;
        for (block* b = tails_.front(); b != nullptr && left != 0; b = tails_.after(b)) { look(b); }
        return best;
    }
    /// Returns the size of the largest free block, or 0 if there is none.
    [[nodiscard]] std::size_t largest_block() const noexcept {
        std::size_t most = bins_.largest_block();
        for_each_tail([&](block const* b) { most = b->bytes > most ? b->bytes : most; });
        return most;
    }
    /// Calls `visit(block)` for each free block of at least `bytes`. `visit` may remove the block.
    /// The last blocks of chunks that can grow are visited last.
    template <class Visit>
    void for_each_from(std::size_t bytes, Visit const& visit) const {
        auto const look = [&](block* b) {
            if (b->bytes >= bytes) { visit(b); }
        };
        for (auto i = bins_.next(bins::of(bytes)); i != bins::count; i = bins_.next(i + 1)) {
            for (block *b = bins_.front(i), *next; b != nullptr; b = next) {
                next = bins_.after(i, b); // read now, because `visit` may remove `b`
                look(b);
            }
        }
        for_each_tail(look);
    }
    /// Calls `visit(block)` for each free block that ends a chunk that can grow. `visit` may remove
    /// the block.
    template <class Visit>
    void for_each_tail(Visit const& visit) const {
        for (block *b = tails_.front(), *next; b != nullptr; b = next) {
            next = tails_.after(b); // read now, because `visit` may remove `b`
            visit(b);
        }
    }

private:
    /// Value of `block::bin` for a block in `tails_`, the list of last blocks of chunks.
    static constexpr std::uint16_t among_tails = bins::count;

    void insert_in_place(block* b) noexcept {
        if (is_tail(b)) {
            b->bin = among_tails;
            tails_.insert(b);
        } else if (b->unbacked) {
            bins_.insert_last(b);
        } else {
            bins_.insert(b);
        }
    }

    /// Continues `quick` if the first block of the bin (free list) `i` may lack physical memory.
    /// Examines the first blocks of up to eight bins. Returns the first of these blocks that can be
    /// used without a wait, or null.
    template <class Price>
    [[nodiscard, gnu::noinline]] block* past_unbacked(std::size_t i, std::size_t bytes,
                                                      Price const& price) const {
        for (unsigned left = 8; left != 0; --left, i = bins_.next(i + 1)) {
            block* const b = front_of(i);
            if (b == nullptr || b->bytes < bytes) { return nullptr; }
            if (places_.costs_nothing(*b, bytes, price)) { return b; }
            if (!b->unbacked || i == bins::count) { return nullptr; }
        }
        return nullptr;
    }
    /// Returns the first block of the free list `bin`, or null if the list is empty. The index
    /// `bins::count` stands for the list `tails_`.
    [[nodiscard]] block* front_of(std::size_t bin) const noexcept {
        return bin != bins::count ? bins_.front(bin) : tails_.front();
    }
    /// Returns true if the stream with the index `slot` may use the whole block without a wait.
    /// This test is quick but not exact. If it fails, the slower `costs_nothing` may still succeed.
    [[nodiscard]] static bool free_for(block const& b, std::size_t slot) noexcept {
        bool const own = b.slot == slot && b.epoch != tag::captured;
        return (own || b.slot == block::nobody) && !b.unbacked;
    }
    template <class Price>
    [[nodiscard]] fit find_in_bins(std::size_t bytes, std::size_t alignment, Price const& price,
                                   bool all) const {
        // Number of candidates to examine in one bin (free list by size).
        std::size_t const each = all ? ~std::size_t{0} : 4;
        // Number of blocks to examine before the search accepts a place that needs a wait.
        std::size_t left = all ? ~std::size_t{0} : 48;
        fit         dear{.cost = availability::unavailable};
        // Index of the bin (free list) for `bytes`. Some blocks in this bin are too small for the
        // request. All blocks in later bins are large enough.
        std::size_t const own = bins::of(bytes);
        for (auto i = bins_.next(own); i != bins::count; i = bins_.next(i + 1)) {
            fit         best{.cost = availability::unavailable};
            std::size_t seen = 0;
            for (block* b = bins_.front(i); b != nullptr && seen < each;
                 b        = bins_.after(i, b), ++seen) {
                if (best.where != nullptr && b->bytes >= best.where->bytes) { continue; }
                fit const place = places_.placed(b, bytes, alignment, price);
                if (place.cost == availability::ready) {
                    if (i != own) { return beside(place, dear); }
                    if (b->bytes == bytes) { return place; }
                    best = place;
                } else if (place.cost < dear.cost) {
                    dear = place;
                }
            }
            if (best.where != nullptr) { return beside(best, dear); }
            left = left > seen ? left - seen : 0;
            if (left == 0 && dear.where != nullptr) { break; }
        }
        if (all || dear.where == nullptr) { return dear; }
        // All places that were found need a wait. Tries one of the largest blocks, too, because
        // streams may still use only a part of that block.
        fit const ample = places_.placed(bins_.front(bins_.last()), bytes, alignment, price);
        return ample.cost == availability::ready ? ample : dear;
    }

    /// Returns the place `found`, which needs no wait. The place `dear` needs a wait. If the block
    /// of `dear` is smaller, stores it in `tighter`, so that the caller can query this wait.
    static fit beside(fit found, fit const& dear) noexcept {
        bool const tighter = dear.where != nullptr && dear.where->bytes < found.where->bytes;
        found.tighter = tighter && dear.cost < availability::unavailable ? dear.where : nullptr;
        return found;
    }
    bins       bins_;
    block_list tails_;
    /// Finds the place for a request within one block. Points to the pool's table of pages. A move
    /// of the `free_blocks` does not move this pointer, so call `know_memory` after the move.
    block_places places_;
    bool         in_place_ = false;
};

} // namespace detail
} // namespace vram
