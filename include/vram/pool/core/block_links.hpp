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

/// The descriptors (records in host memory) of the blocks of a heap. The blocks of a chunk are
/// linked in the order of addresses.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes no block. No other function fails.
/// Threads   One thread at a time.
/// Cost      Constant.
class block_links {
public:
    /// `apart`: the blocks belong to the heap of small blocks. Stored in `block::apart` of each.
    explicit block_links(bool apart) noexcept : apart_{apart} {}

    /// `reserve` makes sure that `count` unused descriptors exist, or throws `std::bad_alloc`.
    /// `has` returns true if they exist.
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
    /// Adds a descriptor to the unused ones. Its block must be the only one of a chunk, so that no
    /// neighbour has a link to it.
    void put_back(block* only) noexcept { nodes_.put_back(only); }

    /// Divides the free block `b`, which is in no bin (free list by size): shortens it to `bytes`
    /// and returns a new block for the rest, also in no bin. If the block has a pending use by a
    /// stream (one at most), both parts have it afterwards.
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
    /// Returns a new block for the first `bytes` of the block `rest`, which is larger and not the
    /// first of its chunk. Changes the address of `rest`; the caller then changes its size.
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
    /// Removes the descriptor of the block before `b`, and moves the beginning of `b` to the
    /// address of that block. The caller has added the size of that block to `b`. That block must
    /// not be the first of its chunk.
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
