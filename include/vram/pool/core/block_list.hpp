// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_list` is a doubly linked list of blocks.

#include <vram/pool/core/block.hpp> // block, links

namespace vram {
namespace detail {

/// A circular doubly linked list of blocks with an end node. A block is in at most one list.
///
/// Threads   One thread at a time.
/// Cost      Constant; nothing is allocated.
class block_list {
public:
    block_list() noexcept { close(); }
    block_list(block_list&&) = delete;

    [[nodiscard]] bool empty() const noexcept { return ends_.next == &ends_; }
    /// `first` requires a list that is not empty. `after` returns null if `b` is the last block.
    /// `insert` adds a block at the front of the list.
    [[nodiscard]] block* first() const noexcept { return static_cast<block*>(ends_.next); }
    [[nodiscard]] block* after(block const* b) const noexcept {
        return b->next == &ends_ ? nullptr : static_cast<block*>(b->next);
    }
    [[nodiscard]] block* front() const noexcept { return empty() ? nullptr : first(); }

    void insert(block* b) noexcept {
        b->previous          = &ends_;
        b->next              = ends_.next;
        ends_.next->previous = b;
        ends_.next           = b;
    }
    void insert_last(block* b) noexcept {
        b->next              = &ends_;
        b->previous          = ends_.previous;
        ends_.previous->next = b;
        ends_.previous       = b;
    }
    static void remove(block* b) noexcept {
        b->next->previous = b->previous;
        b->previous->next = b->next;
    }
    /// Replaces the blocks of this list by the blocks of `other`, which is then empty. The replaced
    /// blocks are then in no list.
    void take(block_list& other) noexcept {
        close();
        if (other.empty()) { return; }
        ends_                = other.ends_;
        ends_.next->previous = &ends_;
        ends_.previous->next = &ends_;
        other.close();
    }

private:
    void close() noexcept { ends_.next = ends_.previous = &ends_; }

    links ends_;
};

} // namespace detail
} // namespace vram
