// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_divider` divides free blocks for requests, and coalesces freed blocks.

#include <vram/pool/core/block_chunks.hpp>
#include <vram/pool/core/block_links.hpp>
#include <vram/pool/core/block_tags.hpp>
#include <vram/pool/core/free_blocks.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The free blocks of a heap (a part of a pool, with its own chunks). Divides free blocks for
/// requests, and coalesces freed blocks with free neighbours. `is_complete(use)` returns true if a
/// pending use (a stream that may still access freed memory) is complete.
///
/// Threads   One thread at a time.
class block_divider {
public:
    using fit = free_blocks::fit;

    /// `in_place`: chunks can grow at their ends. `apart`: true for the heap of small blocks.
    block_divider(bool in_place, bool apart) noexcept : free_{in_place}, blocks_{apart} {}
    block_divider(block_divider&& other) noexcept : block_divider{false, false} {
        *this = std::move(other);
    }
    block_divider& operator=(block_divider&& other) noexcept {
        free_            = std::move(other.free_);
        blocks_          = std::move(other.blocks_);
        tags_            = std::move(other.tags_);
        has_uncoalesced_ = std::exchange(other.has_uncoalesced_, false);
        return *this;
    }

    /// Returns the free lists by size, in which the caller searches.
    [[nodiscard]] free_blocks&       index() noexcept { return free_; }
    [[nodiscard]] free_blocks const& index() const noexcept { return free_; }

    /// Makes sure that `count` descriptors and `count` nodes (`use_node`), for blocks with several
    /// pending uses, are available.
    void reserve(std::size_t count) {
        blocks_.reserve(count);
        tags_.reserve(count);
    }
    [[nodiscard]] bool has(std::size_t count) const noexcept {
        return blocks_.has(count) && tags_.has(count);
    }
    /// Returns true if `take` needs no `reserve`.
    [[nodiscard]] bool is_prepared() const noexcept { return blocks_.has(2) && !tags_.empty(); }

    /// `hold` replaces the pending uses of `b` (streams that may still access its memory) by
    /// `held`. `keep` records, for a new block `b`, the parts that captured graphs may still use.
    /// Both functions require an earlier call of `reserve`.
    void hold(block* b, tags const& held) noexcept { tags_.hold(b, held); }
    void keep(block* b, tags const& kept) noexcept { tags_.keep(b, kept); }
    /// Replaces the pending uses (streams that may still access the memory) of a chunk's last
    /// block, which has grown, by `held`. If no `use_node` (list of uses) is left for `held`, the
    /// block keeps its one use. This use then also covers the added bytes.
    void hold_grown(block* b, tags const& held) noexcept {
        if (held.empty() || b->slot == block::several || !tags_.empty()) { tags_.hold(b, held); }
    }
    /// Drops the pending uses (streams that may still access the memory) for which
    /// `is_complete(use)` returns true.
    template <class IsComplete>
    void refresh(block* b, IsComplete const& is_complete) noexcept {
        tags_.refresh(b, is_complete);
    }

    /// Adds a chunk as one free block with the pending uses `held` (streams that may access the
    /// chunk), and returns this block. Requires `reserve`.
    block* add(void* base, std::size_t bytes, tags const& held) noexcept {
        block* const b = blocks_.make_first(base, bytes);
        tags_.hold(b, held);
        free_.insert(b);
        return b;
    }
    /// Removes a chunk that consists of one free block.
    void remove(block* only) noexcept {
        free_.remove(only);
        tags_.release(only);
        blocks_.put_back(only);
    }

    /// Allocates `bytes` at `place.start` from a free block. The new block is in no free list.
    /// Requires an earlier call of `reserve`.
    block* take(fit const& place, std::size_t bytes) noexcept {
        block* b = place.where;
        if (b->slot == block::several) { return take_part(place, bytes); }
        bool const front = place.start == b->address;
        if (front && b->before != nullptr && b->bytes != bytes) { return take_front(b, bytes); }
        free_.remove(b);
        if (!front) {
            block* const rest = b;
            b                 = blocks_.cut(rest, place.start - rest->address);
            free_.insert(rest);
        }
        if (b->bytes != bytes || free_.is_tail(b)) { free_.insert(blocks_.cut(b, bytes)); }
        return b;
    }

    /// Cuts the first `bytes` from the larger free block `rest`, which must not be the first of its
    /// chunk. Returns them as a block in no free list.
    [[gnu::always_inline]] block* take_front(block* rest, std::size_t bytes) noexcept {
        block* const b = blocks_.cut_front(rest, bytes);
        free_.resize(rest, rest->bytes - bytes);
        tags_.drop_front(rest);
        return b;
    }

    /// Makes a block free that is in no list. Coalesces it with a free neighbour if one descriptor
    /// can store the pending uses (streams that may still access the memory) of both. Returns the
    /// free block that then contains the memory.
    template <class IsComplete>
    block* give_again(block* b, IsComplete const& is_complete) noexcept {
        b->now             = block::state::free;
        block* const front = free_one(b->before);
        block* const after = free_one(b->after);
        if (front == nullptr && after == nullptr) {
            free_.insert(b);
            return b;
        }
        // Two special cases are left to `coalesce`. The descriptor of a chunk's first block must
        // stay. The last block of a chunk that can grow is in a separate list.
        if (b->before == nullptr || free_.is_tail(b)) { return coalesce(b, is_complete); }
        if (after != nullptr && (front == nullptr || free_.is_tail(after))) {
            bool const both = front != nullptr;
            if (both && front->before == nullptr) { return coalesce(b, is_complete); }
            if (!tags_.merge_uses(after, b, is_complete)) { return coalesce(b, is_complete); }
            merge_into_next(b, after);
            if (!both) { return after; }
            if (tags_.merge_uses(after, front, is_complete)) {
                free_.remove(front);
                merge_into_next(front, after);
            } else {
                has_uncoalesced_ = true;
            }
            return after;
        }
        if (!tags_.merge_uses(front, b, is_complete)) { return coalesce(b, is_complete); }
        merge_into_previous(front, b);
        if (after == nullptr) { return front; }
        if (tags_.merge_uses(front, after, is_complete)) {
            free_.remove(after);
            merge_into_previous(front, after);
        } else {
            has_uncoalesced_ = true;
        }
        return front;
    }

    /// Marks a block as fully backed by physical memory.
    void complete(block* b) noexcept {
        bool const in_bin = b->now == block::state::free;
        if (in_bin) { free_.remove(b); }
        b->unbacked = false;
        if (in_bin) { free_.insert(b); }
    }
    /// Removes a free block from its free list, so that no request can use the block until
    /// `give_again`.
    void set_aside(block* b) noexcept {
        free_.remove(b);
        b->now = block::state::cached;
    }
    /// Makes `has_uncoalesced()` true, so that the next `coalesce_pending` walks over all blocks.
    void mark_uncoalesced() noexcept { has_uncoalesced_ = true; }
    /// Returns true if there may be free neighbours that could not be coalesced.
    [[nodiscard]] bool has_uncoalesced() const noexcept { return has_uncoalesced_; }
    /// Does nothing unless `has_uncoalesced()` is true. Otherwise walks over all blocks of
    /// `chunks`. Coalesces free neighbours. Drops each pending use (a stream that may still access
    /// a free block) for which `is_complete(use)` returns true.
    template <class IsComplete>
    void coalesce_pending(block_chunks const& chunks, IsComplete const& is_complete) noexcept {
        if (!std::exchange(has_uncoalesced_, false)) { return; }
        for (block_chunks::chunk const& c : chunks) {
            for (block* b = c.first; b != nullptr; b = b->after) {
                if (b->now != block::state::free) { continue; }
                tags_.refresh(b, is_complete);
                free_.remove(b);
                while (merge_next_if_free(b, is_complete)) {}
                free_.insert(b);
            }
        }
    }

private:
    /// Allocates `bytes` at `place.start` from a free block with several pending uses (streams that
    /// may still access it). The rest of the block stays free and keeps the pending uses of its
    /// memory. The new block has no pending uses.
    block* take_part(fit const& place, std::size_t bytes) noexcept {
        block*               b     = place.where;
        std::uintptr_t const start = place.start;
        free_.remove(b);
        tags const held = b->note->what;
        tags_.release(b);
        if (start != b->address) {
            block* const front = b;
            b                  = blocks_.cut(front, start - front->address);
            tags_.hold(front, held.within(front->address, front->end()));
            free_.insert(front);
        }
        if (b->bytes != bytes || free_.is_tail(b)) {
            block* const rest = blocks_.cut(b, bytes);
            tags_.hold(rest, held.within(rest->address, rest->end()));
            free_.insert(rest);
        }
        return b;
    }

    [[nodiscard]] static block* free_one(block* b) noexcept {
        return b != nullptr && b->now == block::state::free ? b : nullptr;
    }
    /// Adds the memory of `b`, which is in no free list, to the free block `front` before `b`.
    /// Returns `front`. The pending uses of both blocks must already be stored in `front`.
    [[gnu::always_inline]] block* merge_into_previous(block* front, block* b) noexcept {
        front->unbacked = front->unbacked || b->unbacked;
        free_.resize(front, front->bytes + b->bytes);
        blocks_.drop_next(front);
        return front;
    }
    /// Adds the memory of `b`, which is in no free list, to the free block `after` behind `b`.
    /// Returns `after`. The pending uses of both blocks must already be stored in `after`.
    [[gnu::always_inline]] block* merge_into_next(block* b, block* after) noexcept {
        after->unbacked = after->unbacked || b->unbacked;
        free_.resize(after, after->bytes + b->bytes);
        blocks_.drop_previous(after);
        return after;
    }
    /// Adds `b` to the free lists. Merges `b` with a free neighbour if one descriptor can store the
    /// pending uses of both. Returns the free block that contains `b`.
    template <class IsComplete>
    block* coalesce(block* b, IsComplete const& is_complete) noexcept {
        merge_next_if_free(b, is_complete);
        block* const front = free_one(b->before);
        if (front == nullptr) {
            free_.insert(b);
            return b;
        }
        free_.remove(front);
        bool const joined = merge_next(front, is_complete);
        free_.insert(front);
        if (joined) { return front; }
        free_.insert(b);
        has_uncoalesced_ = true;
        return b;
    }

    /// Merges the block after `b` into `b`. Both must be in no free list. Returns false if one
    /// descriptor cannot store the pending uses (streams that may still access the memory) of both.
    template <class IsComplete>
    bool merge_next(block* b, IsComplete const& is_complete) noexcept {
        block* const gone = b->after;
        if (!tags_.merge_uses(b, gone, is_complete)) { return false; }
        b->bytes += gone->bytes;
        b->unbacked = b->unbacked || gone->unbacked;
        blocks_.drop_next(b);
        return true;
    }
    /// Merges the block after `b` into `b`, which must be in no free list. Returns false if no free
    /// block follows `b`, or if one descriptor cannot store the pending uses of both.
    template <class IsComplete>
    bool merge_next_if_free(block* b, IsComplete const& is_complete) noexcept {
        block* const after = free_one(b->after);
        if (after == nullptr) { return false; }
        free_.remove(after);
        if (merge_next(b, is_complete)) { return true; }
        free_.insert(after);
        has_uncoalesced_ = true;
        return false;
    }

    free_blocks free_;
    block_links blocks_;
    block_tags  tags_;
    /// True if there may be neighbouring free blocks that are not coalesced.
    bool has_uncoalesced_ = false;
};

} // namespace detail
} // namespace vram
