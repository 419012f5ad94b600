// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_heap` cuts chunks into blocks and joins what comes back: the heart of a pool, without
/// streams.

#include <vram/base/align.hpp>       // align, align_down
#include <vram/pool/address_map.hpp> // address_map
#include <vram/pool/bins.hpp>        // bins
#include <vram/pool/block_store.hpp> // block_store
#include <vram/pool/heap_array.hpp>  // heap_array

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // move, exchange

namespace vram {

/// Every block knows its neighbours in the order of addresses, so that joining needs no search;
/// free ones are in bins by size, those handed out in a hash table by address. What a free block
/// waits for is carried in its tags; how much that costs whom is for the caller to say.
///
/// Failure   `std::bad_alloc` from `reserve` and `add`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      constant at any number of blocks; `find` looks at a bounded number of candidates
class block_heap {
public:
    static constexpr std::size_t granule = bins::granule;

    /// What one chunk is: its first block stays its first for as long as the chunk is here.
    struct chunk {
        block*      first     = nullptr;
        void*       base      = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0; ///< what the upstream was asked for

        /// Whether all of it is free, in one block.
        [[nodiscard]] bool idle() const noexcept { return first->free && first->after == nullptr; }
    };

    /// A place for a request. `cost` is what `price` said: 0 is nothing, the larger the worse.
    struct fit {
        block*         where = nullptr;
        std::uintptr_t start = 0;
        unsigned       cost  = 0;
    };
    static constexpr unsigned unusable = 2; ///< the price of a place that cannot be had

    block_heap() = default;
    block_heap(block_heap&& other) noexcept { *this = static_cast<block_heap&&>(other); }
    block_heap& operator=(block_heap&& other) noexcept {
        bins_       = std::move(other.bins_);
        store_      = std::move(other.store_);
        live_       = std::move(other.live_);
        chunks_     = std::move(other.chunks_);
        reserved_   = std::exchange(other.reserved_, 0);
        free_bytes_ = std::exchange(other.free_bytes_, 0);
        return *this;
    }

    /// Makes sure that one `take` cannot fail.
    void reserve() {
        store_.reserve(3); // two for `take`, one for a chunk that is added in between
        live_.reserve(1);
    }

    /// A place for `bytes` (a multiple of `granule`) at `alignment`, or none: a tight one of few
    /// candidates that cost nothing, else the first that costs least. `price(tags)` prices a place
    /// by the tags it carries. `all` looks at every free block that could do.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price, bool all) {
        std::size_t const each = all ? ~std::size_t{0} : 8;  // candidates in one bin
        std::size_t       left = all ? ~std::size_t{0} : 48; // candidates once there is something
        fit               priced{.cost = unusable};
        std::size_t const own = bins::of(bytes); // some of these are too small; later ones all do
        for (auto i = bins_.next(own); i != bins::count; i = bins_.next(i + 1)) {
            fit         best{.cost = unusable};
            std::size_t seen = 0;
            for (block* b = bins_.front(i); b != nullptr && seen < each; b = b->next, ++seen) {
                if (best.where != nullptr && b->bytes >= best.where->bytes) { continue; }
                fit const place = placed(b, bytes, alignment, price);
                if (place.cost == 0) {
                    if (i != own || b->bytes == bytes) { return place; } // as tight as the bin
                    best = place;
                } else if (place.cost < priced.cost) {
                    priced = place;
                }
            }
            if (best.where != nullptr) { return best; }
            left = left > seen ? left - seen : 0;
            if (left == 0 && priced.where != nullptr) { break; }
        }
        return priced;
    }

    /// Hands out [start, start + bytes) of a free block; what is left of it stays free. After
    /// `reserve`.
    block* take(fit const& place, std::size_t bytes) noexcept {
        block*     b    = place.where;
        tags const held = b->waits_for;
        bins_.remove(b);
        if (place.start != b->address) {
            block* const front = b;
            b                  = cut(front, place.start - front->address);
            front->waits_for   = held.within(front->address, front->end());
            bins_.insert(front);
        }
        if (b->bytes != bytes) {
            block* const rest = cut(b, bytes);
            rest->waits_for   = held.within(rest->address, rest->end());
            rest->free        = true;
            bins_.insert(rest);
        }
        b->free      = false;
        b->waits_for = {};
        live_.insert(b->address, b);
        free_bytes_ -= bytes;
        return b;
    }

    /// The block handed out at `p`, or null.
    [[nodiscard]] block* live(void const* p) const noexcept {
        return live_.find(reinterpret_cast<std::uintptr_t>(p));
    }

    /// Takes back a block that was handed out, and joins it with its free neighbours where their
    /// tags have room for each other. Returns the free block that holds it now.
    template <class Settled>
    block* give(block* b, tags const& held, Settled const& settled) noexcept {
        live_.erase(b->address);
        free_bytes_ += b->bytes;
        b->requested = 0;
        b->waits_for = held;
        b->free      = true;
        join_after(b, settled);
        block* const front = b->before;
        if (front == nullptr || !front->free) {
            bins_.insert(b);
            return b;
        }
        bins_.remove(front);
        bool const joined = absorb(front, settled);
        bins_.insert(front);
        if (joined) { return front; }
        bins_.insert(b);
        return b;
    }

    /// Adds a chunk, free as a whole, that waits for `held`.
    block* add(void* base, std::size_t bytes, std::size_t alignment, tags const& held) {
        store_.reserve(1);
        chunks_.reserve(chunks_.size() + 1);
        block* const b = store_.make();
        b->address     = reinterpret_cast<std::uintptr_t>(base);
        b->bytes       = bytes;
        b->waits_for   = held;
        b->free        = true;
        bins_.insert(b);
        chunks_.push(chunk{b, base, bytes, alignment});
        reserved_ += bytes;
        free_bytes_ += bytes;
        return b;
    }

    /// The index of an idle chunk, the cheapest and among those the largest; the number of chunks
    /// if there is none that can be had.
    template <class Price>
    [[nodiscard]] std::size_t idle_chunk(Price const& price) const {
        std::size_t found = chunks_.size();
        unsigned    least = unusable;
        for (std::size_t i = 0; i < chunks_.size(); ++i) {
            if (!chunks_[i].idle()) { continue; }
            unsigned const cost = price(chunks_[i].first->waits_for);
            if (cost < least ||
                (cost == least && cost != unusable && chunks_[i].bytes > chunks_[found].bytes)) {
                found = i;
                least = cost;
            }
        }
        return found;
    }
    /// Takes an idle chunk out of the books.
    chunk remove(std::size_t index) noexcept {
        chunk const gone = chunks_.take(index);
        bins_.remove(gone.first);
        store_.put_back(gone.first);
        reserved_ -= gone.bytes;
        free_bytes_ -= gone.bytes;
        return gone;
    }

    /// Drops settled tags everywhere and joins free neighbours that could not be joined before.
    template <class Settled>
    void tidy(Settled const& settled) noexcept {
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                if (!b->free) { continue; }
                b->waits_for.drop(settled);
                bins_.remove(b);
                while (join_after(b, settled)) {}
                bins_.insert(b);
            }
        }
    }

    /// Whatever the stream in `slot` may still be using is kept for a graph that is captured on it.
    void keep_for_capture(std::size_t slot) noexcept {
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                b->waits_for.keep_for_capture(slot);
            }
        }
    }

    /// Calls `visit(block)` for every block, chunk by chunk, in the order of addresses.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) { visit(*b); }
        }
    }

    /// Whether `p` lies in one of the chunks. Cost: the number of chunks.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        for (chunk const& c : chunks_) {
            if (address - reinterpret_cast<std::uintptr_t>(c.base) < c.bytes) { return true; }
        }
        return false;
    }
    [[nodiscard]] heap_array<chunk> const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t              reserved() const noexcept { return reserved_; }
    [[nodiscard]] std::size_t              free_bytes() const noexcept { return free_bytes_; }
    [[nodiscard]] std::size_t largest_free() const noexcept { return bins_.largest_block(); }
    [[nodiscard]] std::size_t live_blocks() const noexcept { return live_.size(); }

private:
    /// The cheaper end of `b` for the request.
    template <class Price>
    fit placed(block* b, std::size_t bytes, std::size_t alignment, Price const& price) const {
        std::uintptr_t const start = align(b->address, alignment);
        if (start > b->end() || b->end() - start < bytes) { return {.cost = unusable}; }
        if (b->waits_for.empty()) { return {b, start, 0}; }
        fit const front{b, start, price(b->waits_for.within(start, start + bytes))};
        if (front.cost == 0) { return front; }
        std::uintptr_t const last = align_down(b->end() - bytes, alignment);
        fit const            back{b, last, price(b->waits_for.within(last, last + bytes))};
        if (back.cost < front.cost) { return back; }
        return front.cost < unusable ? front : fit{.cost = unusable};
    }

    /// Shortens `b`, which is in no bin, to `bytes` and returns a new block, in no bin, for the
    /// rest.
    block* cut(block* b, std::size_t bytes) noexcept {
        block* const rest = store_.make();
        rest->address     = b->address + bytes;
        rest->bytes       = b->bytes - bytes;
        rest->before      = b;
        rest->after       = b->after;
        if (rest->after != nullptr) { rest->after->before = rest; }
        b->after     = rest;
        b->bytes     = bytes;
        b->waits_for = {};
        return rest;
    }

    /// Joins the block after `b` to `b`, both in no bin, if one set of tags holds both.
    template <class Settled>
    bool absorb(block* b, Settled const& settled) noexcept {
        block* const gone = b->after;
        if (!b->waits_for.merge(gone->waits_for, settled)) { return false; }
        b->bytes += gone->bytes;
        b->after = gone->after;
        if (b->after != nullptr) { b->after->before = b; }
        store_.put_back(gone);
        return true;
    }

    /// The same where the block after `b`, if there is one, may be handed out, or is in its bin.
    template <class Settled>
    bool join_after(block* b, Settled const& settled) noexcept {
        block* const after = b->after;
        if (after == nullptr || !after->free) { return false; }
        bins_.remove(after);
        if (absorb(b, settled)) { return true; }
        bins_.insert(after);
        return false;
    }

    bins               bins_;
    block_store        store_;
    address_map<block> live_;
    heap_array<chunk>  chunks_;
    std::size_t        reserved_   = 0;
    std::size_t        free_bytes_ = 0;
};

} // namespace vram
