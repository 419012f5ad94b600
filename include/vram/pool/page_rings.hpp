// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `page_rings` knows which pages the same memory was at.

#include <vram/pool/heap_array.hpp> // heap_array

#include <cstddef> // size_t
#include <cstdint> // uint32_t
#include <utility> // exchange, move

namespace vram {

/// A page, by the number of its chunk and its own there.
struct page_place {
    std::size_t chunk = 0;
    std::size_t page  = 0;

    friend bool operator==(page_place const&, page_place const&) = default;
};

/// Pages are alone, or in a ring with others. Chunks are numbered; where one is taken out, the last
/// one gets its number.
///
/// Failure   `std::bad_alloc` from `reserve` alone, with nothing changed
/// Threads   one at a time
/// Cost      the size of a ring, which is nearly always two; `remove` a walk over all pages
class page_rings {
public:
    page_rings() = default;
    page_rings(page_rings&& other) noexcept { *this = static_cast<page_rings&&>(other); }
    page_rings& operator=(page_rings&& other) noexcept {
        chunks_ = std::move(other.chunks_);
        size_   = std::exchange(other.size_, 0);
        return *this;
    }

    /// How many pages are in rings.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Makes room for a chunk more, or for a chunk that has so many pages in all.
    void reserve() { chunks_.reserve(chunks_.size() + 1); }
    void reserve(std::size_t chunk, std::size_t pages) { chunks_[chunk].reserve(pages); }

    /// A chunk without pages. After `reserve`.
    void add() noexcept { chunks_.push(); }
    /// The chunk has so many pages, the new ones alone. After `reserve`.
    void widen(std::size_t chunk, std::size_t pages) noexcept {
        while (chunks_[chunk].size() < pages) { chunks_[chunk].push(); }
    }
    /// The chunk and its pages are gone.
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

    /// `page` comes into the ring of `other`, out of its own unless that is the same.
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
    /// Takes a page out of its ring, if it is in one.
    void part(page_place const& page) noexcept {
        link const after = std::exchange(at(page), link{});
        if (!after.any()) { return; }
        --size_;
        page_place before = after.where();
        while (!(at(before).where() == page)) { before = at(before).where(); }
        at(before) = after;
        if (!(after.where() == before)) { return; }
        at(before) = link{}; // the last one is alone
        --size_;
    }
    /// Calls `visit(other)` for the other pages of the ring.
    template <class Visit>
    void for_each_other(page_place const& page, Visit const& visit) const {
        for (link l = at(page); l.any() && !(l.where() == page); l = at(l.where())) {
            visit(l.where());
        }
    }
    /// The same, and they are all alone then.
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
    /// A page, or none.
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

    heap_array<heap_array<link>> chunks_; ///< the next one in the ring of each page
    std::size_t                  size_ = 0;
};

} // namespace vram
