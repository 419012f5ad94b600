// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_aliases` records which pages of a pool have shared the same physical memory (aliases).

#include <vram/base/core/heap_array.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Identifies a page: the index of its chunk, and the index of the page in that chunk.
struct page_place {
    std::size_t chunk = 0;
    std::size_t page  = 0;

    friend bool operator==(page_place const&, page_place const&) = default;
};

/// Groups of pages that share the same physical memory or once shared it. Each group is a circular
/// list (ring). A page is in at most one ring. If a chunk is removed, the last chunk takes its
/// index.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      Linear in the size of a ring; `remove` in all pages.
class page_aliases {
public:
    page_aliases() = default;
    page_aliases(page_aliases&& other) noexcept { *this = static_cast<page_aliases&&>(other); }
    page_aliases& operator=(page_aliases&& other) noexcept {
        chunks_ = std::move(other.chunks_);
        size_   = std::exchange(other.size_, 0);
        return *this;
    }

    /// Returns the number of pages in all rings together. A ring is a list of pages that have, or
    /// once had, the same physical memory.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// `reserve()` makes room for one more chunk. `reserve(chunk, pages)` makes room in one chunk,
    /// so that the chunk can have `pages` pages in total.
    void reserve() { chunks_.reserve(chunks_.size() + 1); }
    void reserve(std::size_t chunk, std::size_t pages) { chunks_[chunk].reserve(pages); }

    /// Adds a chunk without pages. Requires a call of `reserve()` before.
    void add() noexcept { chunks_.push(); }
    /// Raises the number of pages of the chunk to `pages`. New pages are in no ring: they share no
    /// memory yet. Requires a call of `reserve(chunk, pages)` before.
    void widen(std::size_t chunk, std::size_t pages) noexcept {
        while (chunks_[chunk].size() < pages) { chunks_[chunk].push(); }
    }
    /// Removes the chunk with the number `chunk`. Its pages leave their rings (lists of pages that
    /// share or shared memory). The last chunk then gets the number `chunk`.
    void remove(std::size_t chunk) noexcept {
        for (std::size_t i = 0; size_ != 0 && i != chunks_[chunk].size(); ++i) { part({chunk, i}); }
        std::size_t const last = chunks_.size() - 1;
        chunks_.take(chunk);
        if (chunk == last || size_ == 0) { return; }
        for (heap_array<link>& pages : chunks_) {
            for (link& l : pages) {
                if (l.any() && l.where().chunk == last) { l = link{{chunk, l.where().page}}; }
            }
        }
    }

    /// Records that two pages share memory: moves `page` to the ring of `other`. If `other` is in
    /// no ring, first creates one. Does nothing if both pages are already in the same ring.
    void pair(page_place const& page, page_place const& other) noexcept {
        bool together = false;
        for_each_other(page, [&](page_place const& one) { together = together || one == other; });
        if (together) { return; }
        part(page);
        if (!at(other).any()) {
            at(other) = link{other};
            ++size_;
        }
        at(page) = std::exchange(at(other), link{page});
        ++size_;
    }
    /// Removes `page` from its ring (list of pages that share, or once shared, memory), if it is in
    /// one. If only one other page is left in the ring, that page also leaves.
    void part(page_place const& page) noexcept {
        link const after = std::exchange(at(page), link{});
        if (!after.any()) { return; }
        --size_;
        page_place before = after.where();
        while (!(at(before).where() == page)) { before = at(before).where(); }
        at(before) = after;
        if (!(after.where() == before)) { return; }
        at(before) = link{}; // a ring has at least two pages
        --size_;
    }
    /// Calls `visit(other)` for each other page in the ring of `page`: the pages that share, or
    /// once shared, the same physical memory.
    template <class Visit>
    void for_each_other(page_place const& page, Visit const& visit) const {
        for (link l = at(page); l.any() && !(l.where() == page); l = at(l.where())) {
            visit(l.where());
        }
    }
    /// Dissolves the ring of `page` (list of pages that share or shared memory). Calls
    /// `visit(other)` for each page of the ring except `page`.
    template <class Visit>
    void dissolve(page_place const& page, Visit const& visit) noexcept {
        link l = std::exchange(at(page), link{});
        if (l.any()) { --size_; }
        while (l.any() && !(l.where() == page)) {
            page_place const other = l.where();
            l                      = std::exchange(at(other), link{});
            --size_;
            visit(other);
        }
    }

private:
    /// Link to the next page in a ring (circular list of pages that have shared memory), packed
    /// into 8 bytes. Empty for a page in no ring.
    class link {
    public:
        link() = default;
        explicit link(page_place const& p) noexcept
            : chunk_{static_cast<std::uint32_t>(p.chunk + 1)},
              page_{static_cast<std::uint32_t>(p.page)} {}

        [[nodiscard]] bool       any() const noexcept { return chunk_ != 0; }
        [[nodiscard]] page_place where() const noexcept { return {chunk_ - std::size_t{1}, page_}; }

    private:
        std::uint32_t chunk_ = 0;
        std::uint32_t page_  = 0;
    };

    [[nodiscard]] link& at(page_place const& p) noexcept { return chunks_[p.chunk][p.page]; }
    [[nodiscard]] link  at(page_place const& p) const noexcept { return chunks_[p.chunk][p.page]; }

    heap_array<heap_array<link>> chunks_;
    std::size_t                  size_ = 0;
};

} // namespace detail
} // namespace vram
