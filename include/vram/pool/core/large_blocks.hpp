// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `large_blocks` is the table of live blocks that were allocated directly from the upstream.

#include <vram/base/core/address_map.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A table of the live blocks allocated directly from the upstream, by address, with the requested
/// size and alignment.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      Constant, except for `owns`, `around` and `drain`.
class large_blocks {
public:
    struct entry {
        void*       at        = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
        entry*      next      = nullptr;
        entry*      previous  = nullptr;
    };

    large_blocks() = default;
    large_blocks(large_blocks&& other) noexcept { swap(other); }
    large_blocks& operator=(large_blocks&& other) noexcept {
        large_blocks fresh{std::move(other)};
        swap(fresh);
        return *this;
    }
    ~large_blocks() {
        for (entry** list : {&live_, &unused_}) {
            while (*list != nullptr) { delete std::exchange(*list, (*list)->next); }
        }
    }

    /// Allocates the host memory that the next `insert` needs, so that `insert` cannot fail.
    void reserve() {
        by_address_.reserve(1);
        if (unused_ == nullptr) { unused_ = new entry; }
    }
    void insert(void* p, std::size_t bytes, std::size_t alignment) noexcept {
        entry* const n = std::exchange(unused_, unused_->next);
        *n             = {p, bytes, alignment, std::exchange(live_, n), nullptr};
        if (n->next != nullptr) { n->next->previous = n; }
        by_address_.insert(key(p), n);
    }
    /// Returns the descriptor of the live block that begins at `p`, or null.
    [[nodiscard]] entry const* find(void const* p) const noexcept {
        return by_address_.find(key(p));
    }
    /// Removes the live block that begins at `p`, which must exist.
    void erase(void const* p) noexcept {
        entry* const n = by_address_.find(key(p));
        by_address_.erase(key(p));
        (n->previous != nullptr ? n->previous->next : live_) = n->next;
        if (n->next != nullptr) { n->next->previous = n->previous; }
        n->next = std::exchange(unused_, n);
    }

    [[nodiscard]] bool owns(void const* p) const noexcept { return around(p) != nullptr; }
    /// Returns the descriptor of the live block that contains `p`, or null.
    [[nodiscard]] entry const* around(void const* p) const noexcept {
        for (entry const* n = live_; n != nullptr; n = n->next) {
            if (key(p) - key(n->at) < n->bytes) { return n; }
        }
        return nullptr;
    }
    [[nodiscard]] std::size_t size() const noexcept { return by_address_.size(); }
    /// Removes each live block, and then calls `visit(descriptor)` for that block.
    template <class Visit>
    void drain(Visit const& visit) {
        while (live_ != nullptr) {
            entry const gone = *live_;
            erase(gone.at);
            visit(gone);
        }
    }

private:
    [[nodiscard]] static std::uintptr_t key(void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p);
    }
    void swap(large_blocks& other) noexcept {
        std::swap(by_address_, other.by_address_);
        live_   = std::exchange(other.live_, live_);
        unused_ = std::exchange(other.unused_, unused_);
    }

    address_map<entry> by_address_;
    entry*             live_   = nullptr;
    entry*             unused_ = nullptr;
};

} // namespace detail
} // namespace vram
