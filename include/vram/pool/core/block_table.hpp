// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_table` is a hash table that finds a live block by its address.

#include <vram/base/core/hash_cells.hpp>
#include <vram/pool/core/block.hpp> // block, links

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A hash table that finds a live, reserved or cached block (see `block::state`) by its address.
/// The table links blocks by `block::next`: they must be in no other list that uses this link.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      Constant, except for `reserve`.
class block_table {
public:
    block_table() = default;
    block_table(block_table&& other) noexcept
        : heads_{std::move(other.heads_)},
          size_{std::exchange(other.size_, 0)},
          room_{std::exchange(other.room_, 0)} {}
    block_table& operator=(block_table&& other) noexcept {
        heads_ = std::move(other.heads_);
        size_  = std::exchange(other.size_, 0);
        room_  = std::exchange(other.room_, 0);
        return *this;
    }
    ~block_table() = default;

    /// Makes room for `more` further blocks, so that as many calls of `insert` cannot fail.
    void reserve(std::size_t more) {
        std::size_t const count = heads_.enough(size_ + more, room);
        if (count == heads_.count()) { return; }
        hash_cells<links*> const old = std::exchange(heads_, hash_cells<links*>{count});
        room_                        = room(count);
        for (std::size_t i = 0; i < old.count(); ++i) {
            for (links *l = old[i], *next; l != nullptr; l = next) {
                next = l->next;
                put(static_cast<block*>(l));
            }
        }
    }

    [[nodiscard]] bool has_room() const noexcept { return size_ < room_; }

    /// Adds a block that is in no list. `reserve` must have made room for it.
    void insert(block* b) noexcept {
        put(b);
        ++size_;
    }

    /// Returns the block that begins at `address`, or null if there is none.
    [[nodiscard, gnu::always_inline]] block* find(std::uintptr_t address) const noexcept {
        auto* b = static_cast<block*>(heads_[heads_.home(address)]);
        while (b != nullptr && b->address != address) { b = static_cast<block*>(b->next); }
        return b;
    }

    void erase(block* b) noexcept {
        links** at = &heads_[heads_.home(b->address)];
        while (*at != b) { at = &(*at)->next; }
        *at = b->next;
        --size_;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    /// Returns how many blocks a table with `heads` chains (hash buckets) may hold before `reserve`
    /// must enlarge the table.
    [[nodiscard]] static constexpr std::size_t room(std::size_t heads) noexcept {
        // With more than 65,536 chains, longer chains are accepted. An even larger table would
        // cause more cache misses.
        return heads <= 65'536 ? heads / 4 : heads;
    }
    void put(block* b) noexcept {
        links*& head = heads_[heads_.home(b->address)];
        b->next      = std::exchange(head, b);
    }

    hash_cells<links*> heads_;
    std::size_t        size_ = 0;
    /// number of blocks that the hash table can hold before `reserve` must enlarge it
    std::size_t room_ = 0;
};

} // namespace detail
} // namespace vram
