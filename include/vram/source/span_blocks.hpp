// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `span_blocks` knows which addresses of a span are out, and finds others.

#include <vram/base/align.hpp> // saturating_add

#include <cstddef>  // size_t
#include <cstdint>  // uintptr_t
#include <iterator> // prev, next
#include <map>      // map
#include <utility>  // exchange

namespace vram {

/// Blocks of addresses, each with pages of its own, which begins where the first of them does: who
/// counts pages from a block's front counts those of the span. A block is put where those that are
/// there, and it itself, have the most room to grow: in the middle of the largest gap. Where it is
/// too large for that, it goes into the gap that fits best.
///
/// Failure   `std::bad_alloc` from `insert`, with nothing changed
/// Threads   one at a time
/// Cost      O(blocks) for a place, and a step for each page up to the first that is aligned;
///           O(log blocks) else
class span_blocks {
public:
    /// The pages [first, last).
    struct run {
        std::size_t first = 0;
        std::size_t last  = 0;

        [[nodiscard]] bool        empty() const noexcept { return first == last; }
        [[nodiscard]] std::size_t pages() const noexcept { return last - first; }
    };
    /// `bytes` bytes at `address`, in pages of their own.
    struct block {
        std::uintptr_t address = 0;
        std::size_t    bytes   = 0;
        std::size_t    first   = 0;
        std::size_t    last    = 0;

        [[nodiscard]] bool        empty() const noexcept { return last == 0; }
        [[nodiscard]] std::size_t pages() const noexcept { return last - first; }
    };

    span_blocks(void* base, std::size_t page, std::size_t pages) noexcept
        : base_{reinterpret_cast<std::uintptr_t>(base)}, page_{page}, pages_{pages} {}
    span_blocks(span_blocks&& other) noexcept
        : base_{other.base_},
          page_{other.page_},
          pages_{std::exchange(other.pages_, 0)},
          blocks_{std::exchange(other.blocks_, {})} {}

    /// A place for `bytes` bytes, at the front of a page; empty where there is none.
    [[nodiscard]] block place(std::size_t bytes, std::size_t alignment) const noexcept {
        gap   widest, tightest{0, pages_ + 1};
        block in_widest, in_tightest;
        for_each_gap([&](gap const& g) {
            block const at_front = within(g, g.first, bytes, alignment);
            if (at_front.empty()) { return; }
            if (g.pages() > widest.pages()) {
                std::size_t const middle = g.first == 0 ? 0 : g.first + g.pages() / 2;
                widest                   = g;
                in_widest                = within(g, middle, bytes, alignment);
            }
            if (g.pages() < tightest.pages()) {
                tightest    = g;
                in_tightest = at_front;
            }
        });
        return in_widest.empty() ? in_tightest : in_widest;
    }
    void insert(block const& b) { blocks_.emplace(b.address, b); }

    /// `b` with other bytes at its end; empty where that is too far.
    [[nodiscard]] block resized(block const& b, std::size_t bytes) const noexcept {
        auto const  next = blocks_.upper_bound(b.address);
        gap const   room{b.first, next == blocks_.end() ? pages_ : next->second.first};
        block const made = spread(b.address, bytes, b.first);
        return made.last <= room.last ? made : block{};
    }
    void replace(block const& b) noexcept { blocks_.find(b.address)->second = b; }
    void erase(block const& b) noexcept { blocks_.erase(b.address); }

    /// The block that begins at `p`; empty where none does.
    [[nodiscard]] block at(void const* p) const noexcept {
        auto const found = blocks_.find(reinterpret_cast<std::uintptr_t>(p));
        return found == blocks_.end() ? block{} : found->second;
    }

    // Pages of a block. A range that no block holds has none; a block holds all of its pages, also
    // what lies in the last of them behind its last byte.

    /// Those that a range touches.
    [[nodiscard]] run touched(void const* q, std::size_t n) const noexcept {
        if (around(q, n).empty()) { return {}; }
        return {offset(q) / page_, (offset(q) + n + page_ - 1) / page_};
    }
    /// Those that it has to itself.
    [[nodiscard]] run whole(void const* q, std::size_t n) const noexcept {
        block const b = around(q, n);
        if (b.empty()) { return {}; }
        auto const        from  = reinterpret_cast<std::uintptr_t>(q);
        run const         pages = {(offset(q) + page_ - 1) / page_, (offset(q) + n) / page_};
        std::size_t const first = from == b.address ? b.first : pages.first;
        std::size_t const last  = from + n >= b.address + b.bytes ? b.last : pages.last;
        return first < last ? run{first, last} : run{};
    }
    /// The bytes of page `i` that are the range's.
    [[nodiscard]] std::size_t share(std::size_t i, void const* q, std::size_t n) const noexcept {
        std::size_t const from = offset(q) < i * page_ ? i * page_ : offset(q);
        std::size_t const end  = (i + 1) * page_ < offset(q) + n ? (i + 1) * page_ : offset(q) + n;
        return end - from;
    }

    template <class Visit>
    void for_each(Visit const& visit) const {
        for (auto const& [address, b] : blocks_) { visit(b); }
    }
    [[nodiscard]] bool empty() const noexcept { return blocks_.empty(); }

private:
    using gap = run;

    [[nodiscard]] std::size_t offset(void const* q) const noexcept {
        return reinterpret_cast<std::uintptr_t>(q) - base_;
    }
    /// The block whose pages hold all of the range; empty where there is none.
    [[nodiscard]] block around(void const* p, std::size_t bytes) const noexcept {
        auto const from  = reinterpret_cast<std::uintptr_t>(p);
        auto const after = blocks_.upper_bound(from);
        if (after == blocks_.begin() || bytes == 0) { return {}; }
        block const&         b   = std::prev(after)->second;
        std::uintptr_t const end = base_ + b.last * page_;
        return from < end && bytes <= end - from ? b : block{};
    }

    template <class Visit>
    void for_each_gap(Visit const& visit) const {
        std::size_t from = 0;
        for (auto const& [address, b] : blocks_) {
            visit(gap{from, b.first});
            from = b.last;
        }
        visit(gap{from, pages_});
    }

    /// `bytes` bytes at `address`, whose first page is `first`; empty where no address is so far.
    [[nodiscard]] block spread(std::uintptr_t address, std::size_t bytes,
                               std::size_t first) const noexcept {
        std::size_t const end = saturating_add(address - base_, bytes);
        if (end > pages_ * page_) { return {}; }
        return {address, bytes, first, (end + page_ - 1) / page_};
    }
    /// A block in `g`, not before page `from`.
    [[nodiscard]] block within(gap const& g, std::size_t from, std::size_t bytes,
                               std::size_t alignment) const noexcept {
        std::uintptr_t address = base_ + from * page_;
        while (from < g.last && (address & (alignment - 1)) != 0) {
            ++from;
            address += page_;
        }
        if (from >= g.last) { return {}; }
        block const b = spread(address, bytes, from);
        return b.last <= g.last ? b : block{};
    }

    std::uintptr_t                  base_;
    std::size_t                     page_;
    std::size_t                     pages_;
    std::map<std::uintptr_t, block> blocks_; ///< by address
};

} // namespace vram
