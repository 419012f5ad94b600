// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_links` makes the descriptors of blocks, and links each with its neighbours.

#include <vram/pool/core/block.hpp>
#include <vram/pool/core/node_pool.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Creates and removes the descriptors (host-memory records) of a heap's blocks. The blocks of a
/// chunk form a linked list in address order.
///
/// Failure   Only `reserve` can fail: it throws `std::bad_alloc`.
/// Threads   One thread at a time.
/// Cost      Constant.
class block_links {
public:
    /// `apart`: the blocks belong to the heap of small blocks.
    explicit block_links(bool apart) noexcept : apart_{apart} {}

    void               reserve(std::size_t count) { nodes_.reserve(count); }
    [[nodiscard]] bool has(std::size_t count) const noexcept { return nodes_.has(count); }

    /// Returns the descriptor of a new free block, the only one of its chunk. Requires `reserve`.
    block* make_first(void* base, std::size_t bytes) noexcept {
        block* const b = nodes_.make();
        b->address     = reinterpret_cast<std::uintptr_t>(base);
        b->bytes       = bytes;
        b->now         = block::state::free;
        b->apart       = apart_;
        return b;
    }
    /// Makes the descriptor of a block unused. The block must be the only one of its chunk.
    void put_back(block* only) noexcept { nodes_.put_back(only); }

    /// Shortens the free block `b`, which is in no free list, to `bytes`, and returns a new block
    /// for the rest.
    block* cut(block* b, std::size_t bytes) noexcept {
        block* const rest = nodes_.make();
        rest->address     = b->address + bytes;
        rest->bytes       = b->bytes - bytes;
        rest->before      = b;
        rest->after       = b->after;
        rest->slot        = rest->bytes != 0 ? b->slot : block::nobody;
        rest->epoch       = b->epoch;
        rest->now         = block::state::free;
        rest->apart       = b->apart;
        rest->unbacked    = b->unbacked && rest->bytes != 0;
        if (rest->after != nullptr) { rest->after->before = rest; }
        b->after = rest;
        b->bytes = bytes;
        return rest;
    }
    /// Creates a block from the first `bytes` of `rest`, which must not be the first block of its
    /// chunk. The caller must then subtract `bytes` from `rest->bytes`.
    [[gnu::always_inline]] block* cut_front(block* rest, std::size_t bytes) noexcept {
        block* const         b      = nodes_.reuse();
        block* const         before = rest->before;
        std::uintptr_t const start  = rest->address;
        b->address                  = start;
        b->bytes                    = bytes;
        b->before                   = before;
        b->after                    = rest;
        b->apart                    = apart_;
        before->after               = b;
        rest->before                = b;
        rest->address               = start + bytes;
        return b;
    }

    /// Removes the descriptor of the block after `b`. The caller has added the size of that block
    /// to `b`.
    [[gnu::always_inline]] void drop_next(block* b) noexcept {
        block* const gone = b->after;
        b->after          = gone->after;
        if (b->after != nullptr) { b->after->before = b; }
        nodes_.put_back(gone);
    }
    /// Merges the block before `b` into `b`, and removes the descriptor of that block. The block
    /// must not be the first of its chunk. The caller must have added the size of that block to
    /// `b->bytes`.
    [[gnu::always_inline]] void drop_previous(block* b) noexcept {
        block* const gone   = b->before;
        b->address          = gone->address;
        b->before           = gone->before;
        gone->before->after = b;
        nodes_.put_back(gone);
    }

private:
    node_pool<block> nodes_;
    bool             apart_;
};

} // namespace detail
} // namespace vram
