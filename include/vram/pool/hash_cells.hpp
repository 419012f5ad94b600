// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `hash_cells` are the cells of a hash table: where each key belongs, and how many there are.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <cstring> // memset
#include <new>     // operator new
#include <utility> // exchange, move

namespace vram {

/// Fibonacci hashing (Knuth, volume 3, section 6.4): the high bits of the product are well mixed.
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t key) noexcept {
    return key * 0x9E3779B97F4A7C15U;
}

namespace detail {
/// The cell of those that have none of their own: never written. Each library may have its own.
template <class Cell>
inline Cell no_cells{};
} // namespace detail

/// A power of two of cells, each of zero bytes at first; of a table that holds nothing yet there is
/// one, to be looked at alone.
///
/// Failure   `std::bad_alloc` from the constructor; nothing else fails
/// Threads   one at a time
/// Cost      `home` one multiplication
template <class Cell>
class hash_cells {
public:
    hash_cells() = default;
    /// So many; what `enough` said.
    explicit hash_cells(std::size_t count)
        : cells_{static_cast<Cell*>(::operator new(count * sizeof(Cell)))}, mask_{count - 1} {
        shift_ = 64;
        for (std::size_t n = count; n > 1; n /= 2) { --shift_; }
        std::memset(static_cast<void*>(cells_), 0, count * sizeof(Cell));
    }
    hash_cells(hash_cells&& other) noexcept { swap(other); }
    hash_cells& operator=(hash_cells&& other) noexcept {
        hash_cells fresh{std::move(other)};
        swap(fresh);
        return *this;
    }
    ~hash_cells() {
        if (mask_ != 0) { ::operator delete(cells_); }
    }

    /// How many are enough for `size` keys, of which `room(cells)` have room in so many.
    template <class Room>
    [[nodiscard]] std::size_t enough(std::size_t size, Room const& room) const noexcept {
        std::size_t cells = count() > least ? count() : least;
        while (size > room(cells)) { cells *= 2; }
        return cells;
    }
    [[nodiscard]] std::size_t count() const noexcept { return mask_ + 1; }

    /// The index of the cell that a key belongs to, and the one after it, round about.
    [[nodiscard]] std::size_t home(std::uint64_t key) const noexcept {
        return static_cast<std::size_t>(scramble(key) >> shift_) & mask_;
    }
    [[nodiscard]] std::size_t after(std::size_t i) const noexcept { return (i + 1) & mask_; }
    /// How far a cell is from another one before it, round about.
    [[nodiscard]] std::size_t distance(std::size_t from, std::size_t to) const noexcept {
        return (to - from) & mask_;
    }
    [[nodiscard]] Cell& operator[](std::size_t i) const noexcept { return cells_[i]; }

private:
    static constexpr std::size_t least = 128;

    void swap(hash_cells& other) noexcept {
        cells_ = std::exchange(other.cells_, cells_);
        mask_  = std::exchange(other.mask_, mask_);
        shift_ = std::exchange(other.shift_, shift_);
    }

    Cell*       cells_ = &detail::no_cells<Cell>;
    std::size_t mask_  = 0; ///< one less than there are; 0: no own ones
    unsigned    shift_ = 63;
};

} // namespace vram
