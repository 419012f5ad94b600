// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_free_lists` are lists of the free blocks with pending uses, one for each stream, ordered
/// by age.

#include <vram/base/core/heap_array.hpp>
#include <vram/pool/core/slab_chunk.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Two lists of freed blocks for each stream; `slot` is the index of the stream. One list contains
/// blocks that the stream may still use, by age. The other is for blocks that captured graphs may
/// use.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      Constant, except for `add_in_order` and `reserve`.
class slab_free_lists {
public:
    using entry = slab_chunk::entry;
    using place = slab_chunk::place;

    /// Creates the lists of the stream with the index `slot`, if necessary, so that adding a freed
    /// block cannot fail.
    void reserve(std::size_t slot) {
        if (slot < lists_.size()) { return; }
        lists_.reserve(slot + 1);
        while (lists_.size() <= slot) { lists_.push(stream_lists{}); }
    }
    [[nodiscard]] std::size_t size() const noexcept { return lists_.size(); }

    /// Removes and returns the block that the stream with the index `slot` freed last. Returns null
    /// if the stream's list is empty.
    [[nodiscard]] entry* take_newest(std::size_t slot) noexcept {
        if (slot >= lists_.size() || lists_[slot].newest == nullptr) { return nullptr; }
        stream_lists& s = lists_[slot];
        entry* const  n = std::exchange(s.newest, s.newest->older);
        (n->older != nullptr ? n->older->newer : s.oldest) = nullptr;
        return n;
    }
    [[nodiscard]] entry* oldest(std::size_t slot) const noexcept { return at(slot).oldest; }
    [[nodiscard]] entry* newest(std::size_t slot) const noexcept { return at(slot).newest; }
    [[nodiscard]] entry* retained(std::size_t slot) const noexcept { return at(slot).retained; }

    /// Adds a freed block, which its stream may still use, as the newest block in the list of that
    /// stream.
    void add(entry* n) noexcept {
        stream_lists& s                                    = lists_[n->slot];
        n->older                                           = std::exchange(s.newest, n);
        n->newer                                           = nullptr;
        (n->older != nullptr ? n->older->newer : s.oldest) = n;
    }
    /// Puts a block that was removed from the list of its stream back into that list, as the oldest
    /// block (freed first).
    void add_oldest(entry* n) noexcept {
        stream_lists& s                                    = lists_[n->slot];
        n->newer                                           = std::exchange(s.oldest, n);
        n->older                                           = nullptr;
        (n->newer != nullptr ? n->newer->older : s.newest) = n;
    }
    /// Adds a freed block to the list of its stream, which is sorted by epoch (part of the stream's
    /// work). Cost: a walk over the blocks with later epochs.
    void add_in_order(entry* n) noexcept {
        stream_lists& s = lists_[n->slot];
        n->newer        = nullptr;
        n->older        = s.newest;
        while (n->older != nullptr && n->older->epoch > n->epoch) {
            n->newer = std::exchange(n->older, n->older->older);
        }
        (n->newer != nullptr ? n->newer->older : s.newest) = n;
        (n->older != nullptr ? n->older->newer : s.oldest) = n;
    }
    void add_retained(entry* n) noexcept {
        n->older = std::exchange(lists_[n->slot].retained, n);
        n->newer = nullptr;
        if (n->older != nullptr) { n->older->newer = n; }
    }
    void remove(entry& n) noexcept {
        stream_lists& s    = lists_[n.slot];
        entry*&       head = n.at == place::retained ? s.retained : s.newest;
        (n.newer != nullptr ? n.newer->older : head) = n.older;
        if (n.older != nullptr) {
            n.older->newer = n.newer;
        } else if (n.at == place::pending) {
            s.oldest = n.newer;
        }
    }

private:
    struct stream_lists {
        entry* newest   = nullptr;
        entry* oldest   = nullptr;
        entry* retained = nullptr;
    };

    /// Returns the lists of blocks freed by the stream `slot`, or empty lists if it has none yet.
    [[nodiscard]] stream_lists at(std::size_t slot) const noexcept {
        return slot < lists_.size() ? lists_[slot] : stream_lists{};
    }

    heap_array<stream_lists> lists_;
};

} // namespace detail
} // namespace vram
