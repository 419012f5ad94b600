// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `freed_blocks` is a chain of blocks that came back: their books stand beside the memory, never
/// in it.

#include <vram/base/requirements.hpp> // C++20

#include <vram/base/call_site.hpp> // call_site

#include <cstddef> // size_t
#include <utility> // exchange

namespace vram {

/// A queue of {pointer, bytes, alignment}, oldest first, that is spliced in O(1). It owns its
/// links, which are made ahead of time, so that taking a block back allocates nothing.
///
/// Failure   only `add_link` allocates, and may throw `std::bad_alloc`
/// Threads   one at a time
/// Cost      constant; no allocation but in `add_link`
class freed_blocks {
public:
    struct link {
        void*       p         = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
        call_site   at        = {}; ///< that freed it
        link*       next      = nullptr;
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

    /// Makes an empty link, for a block to come.
    void add_link() { push(new link); }

    void push(link* one) noexcept {
        one->next                      = nullptr;
        (last_ ? last_->next : first_) = one;
        last_                          = one;
        ++count_;
        bytes_ += one->bytes;
    }

    /// The oldest link, no longer owned; null where there is none.
    [[nodiscard]] link* pop() noexcept {
        link* const one = first_;
        if (one == nullptr) { return nullptr; }
        first_ = one->next;
        if (first_ == nullptr) { last_ = nullptr; }
        --count_;
        bytes_ -= one->bytes;
        return one;
    }

    /// Takes all of `other`, behind what is here.
    void splice(freed_blocks& other) noexcept {
        if (other.first_ == nullptr) { return; }
        (last_ ? last_->next : first_) = std::exchange(other.first_, nullptr);
        last_                          = std::exchange(other.last_, nullptr);
        count_ += std::exchange(other.count_, 0);
        bytes_ += std::exchange(other.bytes_, 0);
    }

    /// Calls `take_back(p, bytes, alignment, at)` for each block, oldest first; the links stay,
    /// empty.
    template <class TakeBack>
    void drain(TakeBack take_back) noexcept {
        for (link* at = first_; at != nullptr; at = at->next) {
            take_back(at->p, at->bytes, at->alignment, at->at);
            *at = {.next = at->next};
        }
        bytes_ = 0;
    }

    /// Whether a block at `p` is here. Cost: a walk over all of them.
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

} // namespace vram
