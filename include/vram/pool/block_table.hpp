// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_table` finds the note of a block that was handed out, by where it lies.

#include <vram/pool/block.hpp>      // block, links
#include <vram/pool/hash_cells.hpp> // hash_cells

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // exchange, move

namespace vram {

/// A hash table of blocks whose chains are the blocks' own links: `next`, which nobody else needs
/// while they are here. A quarter full at most, where chains are of one block nearly always; full
/// where the table is so large that the cache counts more.
///
/// Failure   `std::bad_alloc` from `reserve`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      one multiplication and about one cache line per call beside the block's own, at any
///           size; `insert` takes no branch
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

    /// Makes room for `more` further blocks.
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

    /// Whether there is room for one more.
    [[nodiscard]] bool has_room() const noexcept { return size_ < room_; }

    /// Adds a block that is in no list; room was made by `reserve`.
    void insert(block* b) noexcept {
        put(b);
        ++size_;
    }

    /// The block at `address`, or null.
    [[nodiscard, gnu::always_inline]] block* find(std::uintptr_t address) const noexcept {
        auto* b = static_cast<block*>(heads_[heads_.home(address)]);
        while (b != nullptr && b->address != address) { b = static_cast<block*>(b->next); }
        return b;
    }

    /// Takes out a block that is here.
    void erase(block* b) noexcept {
        links** at = &heads_[heads_.home(b->address)];
        while (*at != b) { at = &(*at)->next; }
        *at = b->next;
        --size_;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    /// How many blocks so many chains are for.
    [[nodiscard]] static constexpr std::size_t room(std::size_t heads) noexcept {
        return heads <= 65'536 ? heads / 4 : heads;
    }
    void put(block* b) noexcept {
        links*& head = heads_[heads_.home(b->address)];
        b->next      = std::exchange(head, b);
    }

    hash_cells<links*> heads_;
    std::size_t        size_ = 0;
    std::size_t        room_ = 0; ///< blocks that the table is for
};

} // namespace vram
