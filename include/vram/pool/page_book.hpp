// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_book` knows which pages of a pool's chunks have memory behind them.

#include <vram/pool/heap_array.hpp> // heap_array

#include <bit>     // popcount
#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move

namespace vram {

/// A few bits for each page of each chunk. A chunk begins with a page and has whole pages.
///
/// Failure   `std::bad_alloc` from `add` and `widen`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      the number of chunks, and of a range a step for 64 pages
class page_book {
public:
    /// The pages [first, last) of a chunk.
    struct run {
        std::size_t chunk = 0;
        std::size_t first = 0;
        std::size_t last  = 0;
    };

    explicit page_book(std::size_t page) noexcept : page_{page} {}

    [[nodiscard]] std::size_t page() const noexcept { return page_; }

    /// A chunk of `bytes` with memory everywhere.
    void add(void* base, std::size_t bytes) {
        entry fresh{reinterpret_cast<std::uintptr_t>(base), 0, {}};
        lengthen(fresh, bytes);
        std::size_t const pages = fresh.pages;
        chunks_.push(std::move(fresh));
        set({chunks_.size() - 1, 0, pages}, true);
    }
    /// The chunk has `more` bytes at its end, without memory.
    void widen(void* base, std::size_t more) {
        lengthen(chunks_[around(reinterpret_cast<std::uintptr_t>(base))], more);
    }
    /// The chunk is gone. Returns how many bytes of it had memory.
    std::size_t remove(void* base) noexcept {
        std::size_t const i = around(reinterpret_cast<std::uintptr_t>(base));
        if (i == chunks_.size()) { return 0; }
        std::size_t const had = mapped({i, 0, chunks_[i].pages});
        chunks_.take(i);
        return had;
    }

    /// The pages that [from, to) touches.
    [[nodiscard]] run touched(std::uintptr_t from, std::uintptr_t to) const noexcept {
        std::size_t const    i    = around(from);
        std::uintptr_t const base = chunks_[i].base;
        return {i, (from - base) / page_, (to - base + page_ - 1) / page_};
    }
    /// Those that it has to itself.
    [[nodiscard]] run whole(std::uintptr_t from, std::uintptr_t to) const noexcept {
        std::size_t const    i     = around(from);
        std::uintptr_t const base  = chunks_[i].base;
        std::size_t const    first = (from - base + page_ - 1) / page_;
        std::size_t const    last  = (to - base) / page_;
        return {i, first, last > first ? last : first};
    }
    /// How many bytes of a run have memory, and how many have none.
    [[nodiscard]] std::size_t mapped(run const& r) const noexcept {
        std::size_t pages = 0;
        for_each_word(*this, r, [&](word const& w, std::uint64_t mask) {
            pages += static_cast<std::size_t>(std::popcount(w.mapped & mask));
        });
        return pages * page_;
    }
    [[nodiscard]] std::size_t missing(run const& r) const noexcept { return bytes(r) - mapped(r); }

    /// The back of a run that has `bytes` of memory, or a bit more; all of it where it has less.
    [[nodiscard]] run back(run r, std::size_t bytes) const noexcept {
        std::size_t       sum   = 0;
        std::size_t const first = r.first;
        for (r.first = r.last; r.first > first && sum < bytes;) {
            --r.first;
            sum += mapped({r.chunk, r.first, r.first + 1});
        }
        return r;
    }
    [[nodiscard]] void* address(run const& r) const noexcept {
        return reinterpret_cast<void*>(chunks_[r.chunk].base + r.first * page_);
    }
    [[nodiscard]] std::size_t bytes(run const& r) const noexcept {
        return (r.last - r.first) * page_;
    }
    /// All of a run has memory now, or is taken for pages that have none.
    void set(run const& r, bool mapped) noexcept {
        for_each_word(*this, r, [&](word& w, std::uint64_t mask) {
            w.mapped = mapped ? w.mapped | mask : w.mapped & ~mask;
            w.left &= ~w.mapped;
        });
    }
    /// The memory of a run moved elsewhere, as far as it has none.
    void leave(run const& r) noexcept {
        for_each_word(*this, r, [](word& w, std::uint64_t mask) { w.left |= mask & ~w.mapped; });
    }
    /// Whether memory of a page of the run, which has none now, moved elsewhere: what was given to
    /// streams before may still use it there.
    [[nodiscard]] bool left(run const& r) const noexcept {
        bool some = false;
        for_each_word(*this, r, [&](word const& w, std::uint64_t mask) {
            some = some || (w.left & mask) != 0;
        });
        return some;
    }
    /// `bytes` of memory left the first pages of a run that had some, and are the first of another
    /// that had none.
    void move(run const& from, run const& to, std::size_t bytes) noexcept {
        flip(from, bytes, true);
        flip(to, bytes, false);
    }

    // Pages that are asked for by their addresses

    /// The page of `p`, if it is one of a chunk, is wanted; or is not any more.
    void want(void const* p, bool wanted) noexcept {
        for_each_word(*this, around(p), [&](word& w, std::uint64_t bit) {
            w.wanted = wanted ? w.wanted | bit : w.wanted & ~bit;
            w.given &= ~bit;
        });
    }
    /// Whether some page of the run is wanted.
    [[nodiscard]] bool wanted(run const& r) const noexcept {
        bool some = false;
        for_each_word(*this, r, [&](word const& w, std::uint64_t mask) {
            some = some || (w.wanted & w.mapped & mask) != 0;
        });
        return some;
    }
    /// The wanted pages of the run can be had.
    void give(run const& r) noexcept {
        for_each_word(*this, r,
                      [&](word& w, std::uint64_t mask) { w.given |= w.wanted & w.mapped & mask; });
    }
    [[nodiscard]] bool given(void const* p) const noexcept {
        bool it = false;
        for_each_word(*this, around(p),
                      [&](word const& w, std::uint64_t bit) { it = (w.given & bit) != 0; });
        return it;
    }

private:
    /// A bit for each of 64 pages.
    struct word {
        std::uint64_t mapped = 0, wanted = 0, given = 0, left = 0;
    };
    struct entry {
        std::uintptr_t   base;
        std::size_t      pages;
        heap_array<word> words;
    };

    /// Calls `visit(word, mask)` for the words of a run.
    template <class Book, class Visit>
    static void for_each_word(Book& book, run const& r, Visit const& visit) noexcept {
        for (std::size_t i = r.first, end = 0; i < r.last; i = end) {
            end                = (i / 64 + 1) * 64;
            std::uint64_t mask = ~std::uint64_t{0} << i % 64;
            if (end > r.last) { mask &= ~std::uint64_t{0} >> (end - r.last); }
            visit(book.chunks_[r.chunk].words[i / 64], mask);
        }
    }

    void flip(run const& r, std::size_t bytes, bool mapped) noexcept {
        std::size_t missing = bytes / page_;
        for (std::size_t i = r.first; i < r.last && missing != 0; ++i) {
            run const one{r.chunk, i, i + 1};
            if ((this->mapped(one) != 0) != mapped) { continue; }
            set(one, !mapped);
            if (mapped) { leave(one); }
            --missing;
        }
    }
    void lengthen(entry& e, std::size_t bytes) {
        std::size_t const pages = e.pages + bytes / page_;
        e.words.reserve((pages + 63) / 64);
        while (e.words.size() < (pages + 63) / 64) { e.words.push(); }
        e.pages = pages;
    }
    /// The chunk that `address` lies in, or the number of chunks.
    [[nodiscard]] std::size_t around(std::uintptr_t address) const noexcept {
        std::size_t i = 0;
        while (i != chunks_.size() && address - chunks_[i].base >= chunks_[i].pages * page_) {
            ++i;
        }
        return i;
    }
    /// The page of `p`, or no page.
    [[nodiscard]] run around(void const* p) const noexcept {
        auto const        address = reinterpret_cast<std::uintptr_t>(p);
        std::size_t const i       = around(address);
        if (i == chunks_.size()) { return {}; }
        std::size_t const first = (address - chunks_[i].base) / page_;
        return {i, first, first + 1};
    }

    std::size_t       page_;
    heap_array<entry> chunks_;
};

} // namespace vram
