// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_book` is the page table of a pool over virtual memory.

#include <vram/base/core/heap_array.hpp>
#include <vram/pool/core/page_aliases.hpp> // page_aliases, page_place

#include <bit> // popcount, countl_zero, countr_zero, has_single_bit
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The page table of a pool over virtual memory: records which pages of the chunks have physical
/// memory. For memory that was moved to another page, records which page has it now.
///
/// Failure   `add` and `widen` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
/// Cost      Linear in the number of chunks and of pages.
class page_book {
public:
    /// The pages from `first` to `last - 1` of the chunk with the number `chunk`.
    struct run {
        std::size_t chunk = 0;
        std::size_t first = 0;
        std::size_t last  = 0;

        [[nodiscard]] std::size_t size() const noexcept { return last - first; }
        [[nodiscard]] bool        holds(page_place const& p) const noexcept {
            return p.chunk == chunk && p.page >= first && p.page < last;
        }
    };

    explicit page_book(std::size_t page) noexcept
        : page_{page},
          shift_{std::has_single_bit(page) ? static_cast<unsigned>(std::countr_zero(page)) : 0U} {}

    [[nodiscard]] std::size_t page() const noexcept { return page_; }

    /// Adds a chunk of `bytes` bytes at `base`. All of its pages have physical memory.
    void add(void* base, std::size_t bytes) {
        rings_.reserve();
        entry fresh{reinterpret_cast<std::uintptr_t>(base), 0, {}};
        fresh.words.reserve((bytes / page_ + 63) / 64);
        chunks_.push(std::move(fresh));
        rings_.add();
        std::size_t const i = chunks_.size() - 1;
        try {
            lengthen(i, bytes);
        } catch (...) {
            forget(i);
            throw;
        }
        set({i, 0, chunks_[i].pages}, true);
    }
    /// Records that the chunk at `base` got `more` bytes at its end, without physical memory.
    void widen(void* base, std::size_t more) {
        lengthen(around(reinterpret_cast<std::uintptr_t>(base)), more);
    }
    /// Removes the chunk at `base` from the table, and returns how many of its bytes have physical
    /// memory.
    std::size_t remove(void* base) noexcept {
        std::size_t const i = around(reinterpret_cast<std::uintptr_t>(base));
        if (i == chunks_.size()) { return 0; }
        run const         all{i, 0, chunks_[i].pages};
        std::size_t const had = mapped(all);
        set(all, false);
        forget(i);
        return had;
    }

    /// Returns the pages that overlap the addresses [from, to).
    [[nodiscard]] run touched(std::uintptr_t from, std::uintptr_t to) const noexcept {
        std::size_t const    i    = around(from);
        std::uintptr_t const base = chunks_[i].base;
        return {i, pages_in(from - base), pages_in(to - base + page_ - 1)};
    }
    /// Returns the pages that lie entirely in the addresses [from, to).
    [[nodiscard]] run whole(std::uintptr_t from, std::uintptr_t to) const noexcept {
        std::size_t const    i     = around(from);
        std::uintptr_t const base  = chunks_[i].base;
        std::size_t const    first = pages_in(from - base + page_ - 1);
        std::size_t const    last  = pages_in(to - base);
        return {i, first, last > first ? last : first};
    }
    [[nodiscard]] void* address(page_place const& p) const noexcept {
        return reinterpret_cast<void*>(chunks_[p.chunk].base + p.page * page_);
    }
    [[nodiscard]] void* address(run const& r) const noexcept {
        return address(page_place{r.chunk, r.first});
    }
    [[nodiscard]] std::size_t bytes(run const& r) const noexcept { return r.size() * page_; }

    [[nodiscard]] bool has(page_place const& p) const noexcept {
        return (chunks_[p.chunk].words[p.page / 64].mapped >> p.page % 64 & 1) != 0;
    }
    /// Returns true if every page that overlaps [from, to) has physical memory.
    [[nodiscard]] bool complete(std::uintptr_t from, std::uintptr_t to) const noexcept {
        std::size_t const    i    = around(from);
        std::uintptr_t const base = chunks_[i].base;
        run const            r{i, pages_in(from - base), pages_in(to - base + page_ - 1)};
        return leading(r, [](word const& w) { return w.mapped; }) == r.size();
    }
    /// Returns the total size in bytes of the pages in the run `r` that have physical memory.
    [[nodiscard]] std::size_t mapped(run const& r) const noexcept {
        return count(r, [](word const& w) { return w.mapped; });
    }
    /// Returns how many bytes of [from, to), which is not empty, have physical memory.
    [[nodiscard]] std::size_t behind(std::uintptr_t from, std::uintptr_t to) const noexcept {
        run const            r     = touched(from, to);
        std::uintptr_t const first = chunks_[r.chunk].base + r.first * page_;
        std::size_t          sum   = mapped(r);
        if (has({r.chunk, r.first})) { sum -= from - first; }
        if (has({r.chunk, r.last - 1})) { sum -= first + bytes(r) - to; }
        return sum;
    }
    /// Returns the total size in bytes of the pages in the run `r` without physical memory.
    [[nodiscard]] std::size_t missing(run const& r) const noexcept { return bytes(r) - mapped(r); }
    /// Returns the total size in bytes of the pages in `r` that have no physical memory and from
    /// which no memory was moved away.
    [[nodiscard]] std::size_t fresh(run const& r) const noexcept {
        return count(r, [](word const& w) { return ~(w.mapped | w.left); });
    }
    /// Returns true if the memory of some page in the run was moved to another page. Streams may
    /// still use this memory at its old address. So mapping other memory there requires a wait.
    [[nodiscard]] bool left(run const& r) const noexcept {
        return count(r, [](word const& w) { return w.left; }) != 0;
    }
    /// Calls `visit(page, left)` for each page of the run without physical memory, from last to
    /// first, until `visit` returns false. `left` is true if the page's memory was moved away.
    template <class Visit>
    void for_each_missing(run r, Visit const& visit) const {
        while (r.first < r.last) {
            std::size_t const start = (r.last - 1) / 64 * 64;
            run const         here{r.chunk, r.first > start ? r.first : start, r.last};
            word const&       w    = chunks_[r.chunk].words[start / 64];
            std::uint64_t     none = ~w.mapped & mask_of(here);
            while (none != 0) {
                auto const          i   = 63 - static_cast<std::size_t>(std::countl_zero(none));
                std::uint64_t const bit = std::uint64_t{1} << i;
                none &= ~bit;
                if (!visit(page_place{r.chunk, start + i}, (w.left & bit) != 0)) { return; }
            }
            r.last = start;
        }
    }
    /// Returns the shortest run of pages at the end of `r` that has at least `bytes` of physical
    /// memory. Returns `r` if there is no such run.
    [[nodiscard]] run back(run r, std::size_t bytes) const noexcept {
        std::size_t       sum   = 0;
        std::size_t const first = r.first;
        for (r.first = r.last; r.first > first && sum < bytes;) {
            --r.first;
            sum += has({r.chunk, r.first}) ? page_ : 0;
        }
        return r;
    }

    /// Records that all pages in the run have physical memory (`mapped`), or that none has, because
    /// the memory was returned to the device.
    void set(run const& r, bool mapped) noexcept {
        if (rings_.size() != 0) {
            for (page_place p{r.chunk, r.first}; p.page != r.last; ++p.page) {
                if (has(p) == mapped) { continue; }
                if (mapped) {
                    rings_.part(p);
                } else { // pages outside the run with this memory lose it, too
                    rings_.dissolve(p,
                                    [&](page_place const& one) { set_bits(run_of(one), false); });
                }
            }
        }
        set_bits(r, mapped);
    }
    /// Records a move of `bytes` of memory. The first pages in `from` that had memory gave it to
    /// the first pages in `to` that had none.
    void move(run from, run to, std::size_t bytes) noexcept {
        auto const some = [](word const& w) { return w.mapped; };
        auto const none = [](word const& w) { return ~w.mapped; };
        for (std::size_t n = bytes / page_, part = 1; n != 0 && part != 0; n -= part) {
            from.first += leading(from, none);
            to.first += leading(to, some);
            std::size_t const full  = leading(from, some);
            std::size_t const empty = leading(to, none);
            std::size_t const both  = full < empty ? full : empty;
            part                    = both < n ? both : n;
            for (std::size_t i = 0; i != part; ++i) {
                rings_.pair({to.chunk, to.first + i}, {from.chunk, from.first + i});
            }
            set_bits({to.chunk, to.first, to.first + part}, true);
            mark_moved({from.chunk, from.first, from.first + part});
        }
    }
    /// Records what the upstream has reported about `page`. If `there`, the page has physical
    /// memory. If not, its memory was moved to another page.
    void look(page_place const& page, bool there) noexcept {
        if (there && !has(page)) { rings_.part(page); }
        if (there) { return set_bits(run_of(page), true); }
        mark_moved(run_of(page));
    }
    /// Records that the memory that `page` once had is now at the address `q`. Does nothing if no
    /// chunk contains `q`.
    void find(page_place const& page, void const* q) noexcept {
        run const there = around(q);
        if (there.size() != 0) { rings_.pair(page, {there.chunk, there.first}); }
    }

    /// Returns the number of pages that share the same physical memory with another page or once
    /// shared it.
    [[nodiscard]] std::size_t shared() const noexcept { return rings_.size(); }

    /// Result of `source_of(page, all)`. `where` is the page that now has the memory that was moved
    /// away from `page`. `known` is false if no page has this memory. It is also false if another
    /// page in the run `all` has or had this memory.
    struct origin {
        bool       known = false;
        page_place where{};
    };
    [[nodiscard]] origin source_of(page_place const& page, run const& all) const noexcept {
        origin found;
        bool   again = false;
        rings_.for_each_other(page, [&](page_place const& one) {
            again = again || all.holds(one);
            if (has(one)) { found = {true, one}; }
        });
        return again ? origin{} : found;
    }
    /// Sets the mark `offered` of the pages in the run that have memory. This memory may then be
    /// moved to other pages. `withdraw` removes the marks of all pages.
    void offer(run const& r) noexcept {
        for_each_word(*this, r, [](word& w, std::uint64_t mask) { w.offered |= mask & w.mapped; });
    }
    void withdraw() noexcept {
        for (entry& e : chunks_) {
            for (word& w : e.words) { w.offered = 0; }
        }
    }
    [[nodiscard]] bool offered(page_place const& p) const noexcept {
        return (chunks_[p.chunk].words[p.page / 64].offered >> p.page % 64 & 1) != 0;
    }

    /// If `wanted`, marks the pages in the run as sources: their memory is to move to other pages.
    /// Otherwise removes this mark. In both cases, also removes the mark `given`.
    void want(run const& r, bool wanted) noexcept {
        for_each_word(*this, r, [&](word& w, std::uint64_t mask) {
            w.wanted = wanted ? w.wanted | mask : w.wanted & ~mask;
            w.given &= ~mask;
        });
    }
    /// Returns true if some page in the run has memory and is marked by `want` as the source of a
    /// planned move to another page.
    [[nodiscard]] bool wanted(run const& r) const noexcept {
        return count(r, [](word const& w) { return w.wanted & w.mapped; }) != 0;
    }
    /// Sets the mark `given` (permission to move the memory of a page) of each page in the run that
    /// has memory and that `want` has marked as a source.
    void give(run const& r) noexcept {
        for_each_word(*this, r,
                      [&](word& w, std::uint64_t mask) { w.given |= w.wanted & w.mapped & mask; });
    }
    [[nodiscard]] bool given(page_place const& p) const noexcept {
        return (chunks_[p.chunk].words[p.page / 64].given >> p.page % 64 & 1) != 0;
    }
    /// Returns the size in bytes of the pages at the start of the run that all have the mark
    /// `given` (permission to move the memory of a page).
    [[nodiscard]] std::size_t given_first(run const& r) const noexcept {
        return leading(r, [](word const& w) { return w.given; }) * page_;
    }
    [[nodiscard]] static run run_of(page_place const& p) noexcept {
        return {p.chunk, p.page, p.page + 1};
    }

private:
    /// Flags of 64 pages, one bit for each page. `mapped`: the page has physical memory. `left`:
    /// the page's memory was moved to another page. `wanted`, `given` and `offered`: marks that the
    /// functions `want`, `give` and `offer` set.
    struct word {
        std::uint64_t mapped = 0, wanted = 0, given = 0, left = 0, offered = 0;
    };
    struct entry {
        std::uintptr_t   base;
        std::size_t      pages;
        heap_array<word> words;
    };

    /// Returns a mask for the `word` (flags of 64 pages) that contains the first page of the run: 1
    /// bits for all pages of the run in this word.
    [[nodiscard]] static std::uint64_t mask_of(run const& r) noexcept {
        std::size_t const   end  = (r.first / 64 + 1) * 64;
        std::uint64_t const from = ~std::uint64_t{0} << r.first % 64;
        return end > r.last ? from & ~std::uint64_t{0} >> (end - r.last) : from;
    }
    template <class Book, class Visit>
    static void for_each_word(Book& book, run r, Visit const& visit) noexcept {
        for (; r.first < r.last; r.first = (r.first / 64 + 1) * 64) {
            visit(book.chunks_[r.chunk].words[r.first / 64], mask_of(r));
        }
    }
    /// Returns the number of pages at the start of the run that all have a 1 bit. `bits(word)`
    /// returns the bits for 64 pages.
    template <class Bits>
    [[nodiscard]] std::size_t leading(run const& r, Bits const& bits) const noexcept {
        std::size_t i = r.first;
        while (i < r.last) {
            std::uint64_t const those = bits(chunks_[r.chunk].words[i / 64]) >> i % 64;
            std::size_t const   there = 64 - i % 64;
            auto const          n     = static_cast<std::size_t>(std::countr_one(those));
            if (n < there) {
                i += n;
                break;
            }
            i += there;
        }
        return (i < r.last ? i : r.last) - r.first;
    }
    /// Returns the total size in bytes of the pages in the run with a 1 bit in `bits(word)`, which
    /// returns a bit for each of 64 pages.
    template <class Bits>
    [[nodiscard]] std::size_t count(run const& r, Bits const& bits) const noexcept {
        std::size_t pages = 0;
        for_each_word(*this, r, [&](word const& w, std::uint64_t mask) {
            std::uint64_t const those = bits(w) & mask;
            if (those != 0) { pages += static_cast<std::size_t>(std::popcount(those)); }
        });
        return pages * page_;
    }
    void set_bits(run const& r, bool mapped) noexcept {
        for_each_word(*this, r, [&](word& w, std::uint64_t mask) {
            w.mapped = mapped ? w.mapped | mask : w.mapped & ~mask;
            w.left &= ~mask;
        });
    }
    /// Records that the memory of all pages in the run was moved to other pages.
    void mark_moved(run const& r) noexcept {
        for_each_word(*this, r, [](word& w, std::uint64_t mask) {
            w.mapped &= ~mask;
            w.left |= mask;
        });
    }

    void lengthen(std::size_t chunk, std::size_t bytes) {
        entry&            e     = chunks_[chunk];
        std::size_t const pages = e.pages + pages_in(bytes);
        std::size_t const words = (pages + 63) / 64;
        e.words.reserve(words);
        rings_.reserve(chunk, pages);
        while (e.words.size() < words) { e.words.push(); }
        rings_.widen(chunk, pages);
        e.pages = pages;
    }
    void forget(std::size_t chunk) noexcept {
        rings_.remove(chunk);
        chunks_.take(chunk);
    }
    [[nodiscard]] std::size_t pages_in(std::size_t bytes) const noexcept {
        return shift_ != 0 ? bytes >> shift_ : bytes / page_;
    }
    /// Returns the index of the chunk that contains `address`, or the number of chunks if none
    /// does.
    [[nodiscard]] std::size_t around(std::uintptr_t address) const noexcept {
        std::size_t i = 0;
        while (i != chunks_.size() && address - chunks_[i].base >= chunks_[i].pages * page_) {
            ++i;
        }
        return i;
    }
    /// Returns the page that contains `p` as a run of one page, or an empty run if no chunk does.
    [[nodiscard]] run around(void const* p) const noexcept {
        auto const        address = reinterpret_cast<std::uintptr_t>(p);
        std::size_t const i       = around(address);
        if (i == chunks_.size()) { return {}; }
        return run_of({i, pages_in(address - chunks_[i].base)});
    }

    std::size_t page_;
    /// Binary logarithm of the page size, or 0 if the page size is not a power of two.
    unsigned          shift_;
    heap_array<entry> chunks_;
    page_aliases      rings_;
};

} // namespace detail
} // namespace vram
