// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_table` finds the note of a block that was handed out, by where it lies.

#include <vram/pool/block.hpp> // block, links

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <cstring> // memset
#include <new>     // operator new
#include <utility> // exchange

namespace vram {

namespace detail {
/// The table of those without one: never written. Each library may have its own.
inline links* no_blocks = nullptr;
} // namespace detail

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
    block_table(block_table&& other) noexcept { swap(other); }
    block_table& operator=(block_table&& other) noexcept {
        block_table fresh{std::move(other)};
        swap(fresh);
        return *this;
    }
    ~block_table() {
        if (mask_ != 0) { ::operator delete(heads_); }
    }

    /// Makes room for `more` further blocks.
    void reserve(std::size_t more) {
        std::size_t heads = mask_ + 1 > least ? mask_ + 1 : least;
        while (size_ + more > room(heads)) { heads *= 2; }
        if (heads == mask_ + 1) { return; }
        block_table fresh;
        fresh.heads_ = static_cast<links**>(::operator new(heads * sizeof(links*)));
        fresh.mask_  = heads - 1;
        fresh.room_  = room(heads);
        fresh.shift_ = 64;
        for (std::size_t n = heads; n > 1; n /= 2) { --fresh.shift_; }
        std::memset(static_cast<void*>(fresh.heads_), 0, heads * sizeof(links*));
        for (std::size_t i = 0; i <= mask_; ++i) {
            for (links *l = heads_[i], *next; l != nullptr; l = next) {
                next = l->next;
                fresh.insert(static_cast<block*>(l));
            }
        }
        swap(fresh);
    }

    /// Whether there is room for one more.
    [[nodiscard]] bool has_room() const noexcept { return size_ < room_; }

    /// Adds a block that is in no list; room was made by `reserve`.
    void insert(block* b) noexcept {
        links*& head = heads_[home(b->address)];
        b->next      = std::exchange(head, b);
        ++size_;
    }

    /// The block at `address`, or null.
    [[nodiscard, gnu::always_inline]] block* find(std::uintptr_t address) const noexcept {
        auto* b = static_cast<block*>(heads_[home(address)]);
        while (b != nullptr && b->address != address) { b = static_cast<block*>(b->next); }
        return b;
    }

    /// Takes out a block that is here.
    void erase(block* b) noexcept {
        links** at = &heads_[home(b->address)];
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
    /// Fibonacci hashing (Knuth, volume 3, section 6.4): the high bits of the product are well
    /// mixed.
    [[nodiscard]] std::size_t home(std::uintptr_t address) const noexcept {
        return static_cast<std::size_t>((address * 0x9E3779B97F4A7C15U) >> shift_) & mask_;
    }
    void swap(block_table& other) noexcept {
        heads_ = std::exchange(other.heads_, heads_);
        size_  = std::exchange(other.size_, size_);
        room_  = std::exchange(other.room_, room_);
        mask_  = std::exchange(other.mask_, mask_);
        shift_ = std::exchange(other.shift_, shift_);
    }

    static constexpr std::size_t least = 128;

    links**     heads_ = &detail::no_blocks;
    std::size_t size_  = 0;
    std::size_t room_  = 0; ///< blocks that the table is for
    std::size_t mask_  = 0; ///< one less than the number of chains (a power of two); 0: no table
    unsigned    shift_ = 63;
};

} // namespace vram
