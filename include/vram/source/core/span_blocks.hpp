// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `span_blocks` divides an address range into blocks of whole pages.

#include <vram/base/align.hpp> // saturating_add
#include <vram/base/core/heap_array.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The list of the blocks in an address range that is divided into pages of equal size. The class
/// manages addresses, and accesses no memory. Each block starts at a page boundary. No two blocks
/// share a page. A new block is placed so that the blocks have room to grow.
///
/// Failure   `insert` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      `place`, `insert` and `erase` are linear in the number of blocks.
class span_blocks {
public:
    /// The pages of the address range with the indices [first, last).
    struct run {
        std::size_t first = 0;
        std::size_t last  = 0;

        [[nodiscard]] bool        empty() const noexcept { return first == last; }
        [[nodiscard]] std::size_t pages() const noexcept { return last - first; }
    };
    /// A block of `bytes` bytes at `address`, which occupies the pages [first, last).
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
          blocks_{std::move(other.blocks_)} {}

    /// Finds free addresses for a block, preferably in the middle of the widest gap between two
    /// blocks. Returns the block without inserting it, or an empty block if no gap is large enough.
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
    void insert(block const& b) {
        std::size_t const at = begun_at(b.address);
        blocks_.push(b);
        for (std::size_t i = blocks_.size() - 1; i != at; --i) { blocks_[i] = blocks_[i - 1]; }
        blocks_[at] = b;
    }

    /// Returns the record of the block `b` after a change of its size to `bytes`. Returns an empty
    /// record if the block would then overlap another block or exceed the range. Changes nothing.
    [[nodiscard]] block resized(block const& b, std::size_t bytes) const noexcept {
        std::size_t const next = begun_at(b.address);
        std::size_t const end  = next == blocks_.size() ? pages_ : blocks_[next].first;
        block const       made = spread(b.address, bytes, b.first);
        return made.last <= end ? made : block{};
    }
    void replace(block const& b) noexcept { blocks_[begun_at(b.address) - 1] = b; }
    void erase(block const& b) noexcept {
        for (std::size_t i = begun_at(b.address); i != blocks_.size(); ++i) {
            blocks_[i - 1] = blocks_[i];
        }
        blocks_.pop();
    }

    /// Returns the block that begins at the address `p`, or an empty block if none does.
    [[nodiscard]] block at(void const* p) const noexcept {
        auto const         address = reinterpret_cast<std::uintptr_t>(p);
        block const* const last    = last_up_to(address);
        return last != nullptr && last->address == address ? *last : block{};
    }

    // For a range outside the pages of one block (the last page included), these functions return
    // an empty block or no pages.

    /// Returns the block whose pages contain all of the `bytes` bytes at `p`, or an empty block.
    [[nodiscard]] block around(void const* p, std::size_t bytes) const noexcept {
        auto const         from = reinterpret_cast<std::uintptr_t>(p);
        block const* const b    = last_up_to(from);
        if (b == nullptr || bytes == 0) { return {}; }
        std::uintptr_t const end = base_ + b->last * page_;
        return from < end && bytes <= end - from ? *b : block{};
    }
    /// Returns the pages that overlap the `n` bytes at `q`. Returns no pages unless the pages of
    /// one block contain all these bytes.
    [[nodiscard]] run touched(void const* q, std::size_t n) const noexcept {
        if (around(q, n).empty()) { return {}; }
        return {offset(q) / page_, (offset(q) + n + page_ - 1) / page_};
    }
    /// Returns the pages of a block that lie completely within the `n` bytes at `q`. If the block
    /// uses only a part of its last page, only that part must lie within these bytes.
    [[nodiscard]] run whole(void const* q, std::size_t n) const noexcept {
        block const b = around(q, n);
        if (b.empty()) { return {}; }
        auto const        from  = reinterpret_cast<std::uintptr_t>(q);
        run const         pages = {(offset(q) + page_ - 1) / page_, (offset(q) + n) / page_};
        std::size_t const first = from == b.address ? b.first : pages.first;
        std::size_t const last  = from + n >= b.address + b.bytes ? b.last : pages.last;
        return first < last ? run{first, last} : run{};
    }
    /// Returns how many of the `n` bytes at `q` lie in page `i`. At least one of them must lie
    /// there.
    [[nodiscard]] std::size_t share(std::size_t i, void const* q, std::size_t n) const noexcept {
        std::size_t const from = offset(q) < i * page_ ? i * page_ : offset(q);
        std::size_t const end  = (i + 1) * page_ < offset(q) + n ? (i + 1) * page_ : offset(q) + n;
        return end - from;
    }

    template <class Visit>
    void for_each(Visit const& visit) const {
        for (block const& b : blocks_) { visit(b); }
    }
    [[nodiscard]] bool empty() const noexcept { return blocks_.size() == 0; }

private:
    using gap = run;

    [[nodiscard]] std::size_t offset(void const* q) const noexcept {
        return reinterpret_cast<std::uintptr_t>(q) - base_;
    }

    /// Returns the number of blocks that begin at `address` or at a lower address.
    [[nodiscard]] std::size_t begun_at(std::uintptr_t address) const noexcept {
        std::size_t from = 0;
        std::size_t to   = blocks_.size();
        while (from < to) {
            std::size_t const middle = from + (to - from) / 2;
            if (blocks_[middle].address <= address) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        return from;
    }
    /// Returns the last block that begins at `address` or before it, or null if there is none.
    [[nodiscard]] block const* last_up_to(std::uintptr_t address) const noexcept {
        std::size_t const begun = begun_at(address);
        return begun != 0 ? &blocks_[begun - 1] : nullptr;
    }

    template <class Visit>
    void for_each_gap(Visit const& visit) const {
        std::size_t from = 0;
        for (block const& b : blocks_) {
            visit(gap{from, b.first});
            from = b.last;
        }
        visit(gap{from, pages_});
    }

    /// Returns the block of `bytes` bytes at `address`, with the indices of its pages. `first` is
    /// the index of the page at `address`. Returns an empty block if the block would exceed the
    /// range.
    [[nodiscard]] block spread(std::uintptr_t address, std::size_t bytes,
                               std::size_t first) const noexcept {
        std::size_t const end = saturating_add(address - base_, bytes);
        if (end > pages_ * page_) { return {}; }
        return {address, bytes, first, (end + page_ - 1) / page_};
    }
    /// Returns an aligned block of `bytes` bytes in the free pages `g`, which starts at the page
    /// `from` or later. Returns an empty block if it does not fit.
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

    std::uintptr_t    base_;
    std::size_t       page_;
    std::size_t       pages_;
    heap_array<block> blocks_; ///< all blocks, in the order of their addresses
};

} // namespace detail
} // namespace vram
