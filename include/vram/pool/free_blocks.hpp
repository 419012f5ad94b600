// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `free_blocks` finds the free block that a request should have.

#include <vram/base/align.hpp>        // align, align_down
#include <vram/pool/availability.hpp> // availability
#include <vram/pool/bins.hpp>         // bins
#include <vram/pool/block.hpp>        // block
#include <vram/pool/block_list.hpp>   // block_list
#include <vram/pool/page_book.hpp>    // page_book

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint16_t
#include <utility> // move

namespace vram {

/// The free blocks of a heap: in bins by size, but for the last block of a chunk that can grow at
/// its end. That one is taken when nothing else will do, so that the end of what is used stays as
/// low as it can (the "wilderness" of Korn and Vo, 1985).
///
/// Failure   never
/// Threads   one at a time
/// Cost      `insert` and `remove` constant; `find` looks at a bounded number of candidates
class free_blocks {
public:
    /// A place for a request. `cost` is what `price` returned for it.
    struct fit {
        block*         where   = nullptr;
        std::uintptr_t start   = 0;
        availability   cost    = availability::ready;
        block*         tighter = nullptr; ///< a better one but for a wait, which this does not cost
    };
    /// Above so many bytes a tighter block is worth an event and a question.
    static constexpr std::size_t worth_asking = std::size_t{1} << 20;

    /// `in_place`: chunks grow at their ends.
    explicit free_blocks(bool in_place = false) noexcept : in_place_{in_place} {}
    free_blocks(free_blocks&& other) noexcept { *this = static_cast<free_blocks&&>(other); }
    free_blocks& operator=(free_blocks&& other) noexcept {
        if (this == &other) { return *this; }
        bins_     = std::move(other.bins_);
        in_place_ = other.in_place_;
        tails_.take(other.tails_);
        return *this;
    }

    /// Who knows where in a `bare` block there is memory; null: nobody, and such a one is not had.
    void know_memory(page_book const* pages) noexcept { pages_ = pages; }

    /// Whether a block that is about to come here, or is here, is the last of its chunk.
    [[nodiscard]] bool is_tail(block const* b) const noexcept {
        return in_place_ && b->after == nullptr;
    }
    /// What comes after a block does not change between `insert` and `remove`.
    void insert(block* b) noexcept {
        if (in_place_) { return insert_in_place(b); }
        bins_.insert(b);
    }
    void remove(block* b) noexcept {
        if (b->bin == among_tails) { return block_list::remove(b); }
        bins_.remove(b);
    }

    /// The block, which was inserted, has `bytes` now.
    void resize(block* b, std::size_t bytes) noexcept {
        if (b->bin == among_tails) {
            b->bytes = bytes;
        } else if (b->bare) [[unlikely]] {
            bins_.remove(b);
            b->bytes = bytes;
            bins_.insert_last(b);
        } else {
            bins_.resize(b, bytes);
        }
    }

    /// A place for `bytes` (a multiple of `granule`) at `alignment`, or none: a tight one of few
    /// candidates that cost nothing, else the first that costs least. `all` looks at every free
    /// block that could do.
    template <class Price>
    [[nodiscard]] fit find(std::size_t bytes, std::size_t alignment, Price const& price,
                           bool all) const {
        fit best = find_in_bins(bytes, alignment, price, all);
        if (!in_place_ || (best.where != nullptr && best.cost == availability::ready)) {
            return best;
        }
        for (block* b = tails_.front(); b != nullptr; b = tails_.after(b)) {
            fit place = in_tail(b, bytes, alignment, price);
            if (place.cost >= best.cost) { continue; }
            if (place.cost == availability::ready) { place.tighter = best.where; }
            best = place;
        }
        return best;
    }

    /// As `find`, at `granule`, for the stream in `slot`, where that is plain: the last block that
    /// came to the bin of the size, to the next that holds something, or to the ends of chunks, if
    /// its front costs nothing. Else null, and `find` may know more.
    template <class Price>
    [[nodiscard]] block* quick(std::size_t bytes, std::size_t slot, Price const& price) const {
        std::size_t const own = bins::of(bytes);
        std::size_t       i   = bins_.next(own);
        block*            b   = front_of(i);
        if (b == nullptr) { return nullptr; }
        if (b->bytes < bytes) { // in its own bin
            i = bins_.next(own + 1);
            b = front_of(i);
            if (b == nullptr || b->bytes < bytes) { return nullptr; }
        }
        if (free_for(*b, slot)) [[likely]] { return b; }
        return b->bare ? past_bare(i, bytes, price) : costs_nothing(*b, bytes, price) ? b : nullptr;
    }

    /// A place in a block, and what was found of it: the less the better.
    struct judged {
        static constexpr std::size_t none = ~std::size_t{0}; ///< there is no place

        std::uintptr_t start = 0;
        std::size_t    cost  = none;
    };
    /// Among few blocks that are large enough, small ones first, the place that `judge(block)`
    /// finds best; none where it finds none in any.
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
    /// The size of the largest block, or 0.
    [[nodiscard]] std::size_t largest_block() const noexcept {
        std::size_t most = bins_.largest_block();
        for_each_tail([&](block const* b) { most = b->bytes > most ? b->bytes : most; });
        return most;
    }
    /// Calls `visit(block)` for every block of at least `bytes`, small ones first.
    template <class Visit>
    void for_each_from(std::size_t bytes, Visit const& visit) const {
        auto const look = [&](block* b) {
            if (b->bytes >= bytes) { visit(b); }
        };
        for (auto i = bins_.next(bins::of(bytes)); i != bins::count; i = bins_.next(i + 1)) {
            for (block *b = bins_.front(i), *next; b != nullptr; b = next) {
                next = bins_.after(i, b); // it may be taken out
                look(b);
            }
        }
        for_each_tail(look);
    }
    /// Calls `visit(block)` for the last block of each chunk that can grow.
    template <class Visit>
    void for_each_tail(Visit const& visit) const {
        for (block *b = tails_.front(), *next; b != nullptr; b = next) {
            next = tails_.after(b); // it may be taken out
            visit(b);
        }
    }

    /// From where on `b` can be had, after a wait if need be.
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
    /// What it costs to have all of `b`.
    template <class Price>
    static availability priced(block const& b, Price const& price) {
        if (b.slot == block::nobody) { return availability::ready; }
        return b.slot == block::several ? price(b.note->what) : price(b.slot, b.epoch);
    }

private:
    /// What it costs to have [from, to) of what `held` is noted of.
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
    static constexpr std::uint16_t among_tails = bins::count; ///< `block::bin`

    void insert_in_place(block* b) noexcept {
        if (is_tail(b)) {
            b->bin = among_tails;
            tails_.insert(b);
        } else if (b->bare) {
            bins_.insert_last(b); // who has memory is found first
        } else {
            bins_.insert(b);
        }
    }

    /// `quick` from a bin on whose blocks may all want memory: the first that does not, in one of
    /// the next few bins.
    template <class Price>
    [[nodiscard, gnu::noinline]] block* past_bare(std::size_t i, std::size_t bytes,
                                                  Price const& price) const {
        for (unsigned left = 8; left != 0; --left, i = bins_.next(i + 1)) {
            block* const b = front_of(i);
            if (b == nullptr || b->bytes < bytes) { return nullptr; }
            if (costs_nothing(*b, bytes, price)) { return b; }
            if (!b->bare || i == bins::count) { return nullptr; }
        }
        return nullptr;
    }
    /// The block that came last to a bin, or where that is none to the ends of chunks, or null.
    [[nodiscard]] block* front_of(std::size_t bin) const noexcept {
        return bin != bins::count ? bins_.front(bin) : tails_.front();
    }
    /// Whether the stream in `slot` may have all of a block, and there is memory behind it.
    [[nodiscard]] static bool free_for(block const& b, std::size_t slot) noexcept {
        bool const own = b.slot == slot && b.epoch != tag::captured;
        return (own || b.slot == block::nobody) && !b.bare;
    }
    /// Whether the front of a block does.
    template <class Price>
    [[nodiscard, gnu::noinline]] bool costs_nothing(block const& b, std::size_t bytes,
                                                    Price const& price) const noexcept {
        if (lacks_memory(b, b.address, bytes)) { return false; }
        if (b.slot != block::several) { return priced(b, price) == availability::ready; }
        return priced(b.note->what, b.address, b.address + bytes, price) == availability::ready;
    }
    /// Whether some of the `bytes` at `from` in a block have no memory, for all that is known.
    [[nodiscard]] bool lacks_memory(block const& b, std::uintptr_t from,
                                    std::size_t bytes) const noexcept {
        if (!b.bare) [[likely]] { return false; }
        return pages_ == nullptr || !pages_->complete(from, from + bytes);
    }
    template <class Price>
    [[nodiscard]] fit find_in_bins(std::size_t bytes, std::size_t alignment, Price const& price,
                                   bool all) const {
        std::size_t const each = all ? ~std::size_t{0} : 4;  // candidates in one bin
        std::size_t       left = all ? ~std::size_t{0} : 48; // candidates once there is something
        fit               dear{.cost = availability::unavailable};
        std::size_t const own = bins::of(bytes); // some of these are too small; later ones all do
        for (auto i = bins_.next(own); i != bins::count; i = bins_.next(i + 1)) {
            fit         best{.cost = availability::unavailable};
            std::size_t seen = 0;
            for (block* b = bins_.front(i); b != nullptr && seen < each;
                 b        = bins_.after(i, b), ++seen) {
                if (best.where != nullptr && b->bytes >= best.where->bytes) { continue; }
                fit const place = placed(b, bytes, alignment, price);
                if (place.cost == availability::ready) {
                    if (i != own) { return beside(place, dear); } // as tight as the bin
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
        // The largest is most likely to have a part that nobody waits for.
        fit const ample =
            placed(bins_.front(bins_.last()), bytes, alignment, price); // there is one
        return ample.cost == availability::ready ? ample : dear;
    }

    /// What was found, and what would be tighter for a wait.
    static fit beside(fit found, fit const& dear) noexcept {
        bool const tighter = dear.where != nullptr && dear.where->bytes < found.where->bytes;
        found.tighter = tighter && dear.cost < availability::unavailable ? dear.where : nullptr;
        return found;
    }
    template <class Price>
    fit at_front(block* b, std::size_t bytes, std::size_t alignment, Price const& price) const {
        return behind(b, b->address, bytes, alignment, price);
    }
    /// The first place in `b` that is not before `from`.
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
    /// The lowest of the cheapest places at the end of a chunk: its front, or behind a part that
    /// somebody waits for, which would else bar all the rest.
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
    /// The cheaper end of `b` for the request.
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

    bins             bins_;
    block_list       tails_;
    page_book const* pages_    = nullptr; ///< that of whoever has this, whatever moves here
    bool             in_place_ = false;
};

} // namespace vram
