// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `freed_blocks` is a queue of freed blocks, stored outside the managed memory.

#include <vram/base/requirements.hpp>

#include <vram/base/call_site.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A linked list of freed blocks, in the order in which they were added. Its elements (links) are
/// allocated in advance, so that a free allocates nothing.
///
/// Threads   One thread at a time.
/// Cost      Constant, except `has`, `drain`, the destructor and assignment, which visit each
///           block.
class freed_blocks {
public:
    struct link {
        void*       p         = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
        call_site   at        = {}; ///< the line of the program that freed the block
        /// Number of the part of the stream's work (epoch) in which the block was freed. The block
        /// is unused once the stream has completed this part.
        std::uint64_t epoch = 0;
        /// Sequence number of the free, given by the object that keeps the block: earlier frees
        /// have smaller numbers.
        std::uint64_t age  = 0;
        link*         next = nullptr;
    };

    freed_blocks() = default;
    freed_blocks(freed_blocks&& other) noexcept { splice(other); }
    freed_blocks& operator=(freed_blocks&& other) noexcept {
        if (this == &other) { return *this; }
        clear();
        splice(other);
        return *this;
    }
    ~freed_blocks() { clear(); }

    /// Allocates an empty list element and adds it to the list. A later free uses this element.
    void add_link() { push(new link); }

    void push(link* one) noexcept {
        one->next                      = nullptr;
        (last_ ? last_->next : first_) = one;
        last_                          = one;
        ++count_;
        bytes_ += one->bytes;
    }

    /// Removes and returns the first list element, which the caller must `push` to a list or
    /// delete. Returns null if the list is empty.
    [[nodiscard]] link* pop() noexcept {
        link* const one = first_;
        if (one == nullptr) { return nullptr; }
        first_ = one->next;
        if (first_ == nullptr) { last_ = nullptr; }
        --count_;
        bytes_ -= one->bytes;
        return one;
    }

    [[nodiscard]] link const* first() const noexcept { return first_; }

    /// Moves all list elements of `other` to the end of this list.
    void splice(freed_blocks& other) noexcept {
        if (other.first_ == nullptr) { return; }
        (last_ ? last_->next : first_) = std::exchange(other.first_, nullptr);
        last_                          = std::exchange(other.last_, nullptr);
        count_ += std::exchange(other.count_, 0);
        bytes_ += std::exchange(other.bytes_, 0);
    }

    /// Calls `take_back(p, bytes, alignment, at)` for each block, in order. The emptied list
    /// elements stay in the list, so that later frees can use them.
    template <class TakeBack>
    void drain(TakeBack take_back) noexcept {
        for (link* at = first_; at != nullptr; at = at->next) {
            take_back(at->p, at->bytes, at->alignment, at->at);
            *at = {.next = at->next};
        }
        bytes_ = 0;
    }

    /// Returns true if the list contains a block that starts at `p`. Compares with each block.
    [[nodiscard]] bool has(void const* p) const noexcept {
        for (link const* at = first_; at != nullptr; at = at->next) {
            if (at->p == p) { return true; }
        }
        return false;
    }
    [[nodiscard]] bool        empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] std::size_t count() const noexcept { return count_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
    void clear() noexcept {
        while (link* const one = pop()) { delete one; }
    }

    link*       first_ = nullptr;
    link*       last_  = nullptr;
    std::size_t count_ = 0;
    std::size_t bytes_ = 0;
};

} // namespace detail
} // namespace vram
