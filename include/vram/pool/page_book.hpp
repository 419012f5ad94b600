// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_book` knows which pages of a pool's chunks have memory behind them.

#include <vram/pool/heap_array.hpp> // heap_array

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // move

namespace vram {

/// A flag for each page of each chunk. A chunk begins with a page and has whole
/// pages.
///
/// Failure   `std::bad_alloc` from `add` and `widen`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      the number of chunks, and the pages of a range
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
        entry fresh{reinterpret_cast<std::uintptr_t>(base), {}};
        lengthen(fresh, bytes, true);
        chunks_.push(std::move(fresh));
    }
    /// The chunk has `more` bytes at its end, without memory.
    void widen(void* base, std::size_t more) { lengthen(at(base), more, false); }
    /// The chunk is gone. Returns how many bytes of it had memory.
    std::size_t remove(void* base) noexcept {
        for (std::size_t i = 0; i < chunks_.size(); ++i) {
            if (chunks_[i].base != reinterpret_cast<std::uintptr_t>(base)) { continue; }
            entry const gone = chunks_.take(i);
            std::size_t sum  = 0;
            for (bool const each : gone.mapped) { sum += each ? page_ : 0; }
            return sum;
        }
        return 0;
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
        std::size_t sum = 0;
        for (std::size_t i = r.first; i < r.last; ++i) {
            sum += chunks_[r.chunk].mapped[i] ? page_ : 0;
        }
        return sum;
    }
    [[nodiscard]] std::size_t missing(run const& r) const noexcept {
        return (r.last - r.first) * page_ - mapped(r);
    }

    /// The back of a run that has `bytes` of memory, or a bit more; all of it where it has less.
    [[nodiscard]] run back(run r, std::size_t bytes) const noexcept {
        std::size_t       sum   = 0;
        std::size_t const first = r.first;
        for (r.first = r.last; r.first > first && sum < bytes;) {
            sum += chunks_[r.chunk].mapped[--r.first] ? page_ : 0;
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
        for (std::size_t i = r.first; i < r.last; ++i) { chunks_[r.chunk].mapped[i] = mapped; }
    }
    /// `bytes` of memory left the first pages of a run that had some, and are the first of another
    /// that had none.
    void move(run const& from, run const& to, std::size_t bytes) noexcept {
        flip(from, bytes, true);
        flip(to, bytes, false);
    }

private:
    struct entry {
        std::uintptr_t   base;
        heap_array<bool> mapped;
    };

    void flip(run const& r, std::size_t bytes, bool mapped) noexcept {
        std::size_t left = bytes / page_;
        for (std::size_t i = r.first; i < r.last && left != 0; ++i) {
            bool& there = chunks_[r.chunk].mapped[i];
            if (there != mapped) { continue; }
            there = !mapped;
            --left;
        }
    }
    void lengthen(entry& e, std::size_t bytes, bool mapped) {
        e.mapped.reserve(e.mapped.size() + bytes / page_);
        for (std::size_t i = 0; i < bytes / page_; ++i) { e.mapped.push(mapped); }
    }
    [[nodiscard]] std::size_t around(std::uintptr_t address) const noexcept {
        std::size_t i = 0;
        while (address - chunks_[i].base >= chunks_[i].mapped.size() * page_) { ++i; }
        return i;
    }
    entry& at(void const* base) noexcept {
        std::size_t i = 0;
        while (chunks_[i].base != reinterpret_cast<std::uintptr_t>(base)) { ++i; }
        return chunks_[i];
    }

    std::size_t       page_;
    heap_array<entry> chunks_;
};

} // namespace vram
