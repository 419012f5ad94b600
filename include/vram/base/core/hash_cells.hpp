// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `hash_cells` is the array of cells of a hash table, and the mapping of keys to cells.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring> // memset
#include <new>     // operator new
#include <utility>

namespace vram {
namespace detail {

/// Returns a hash of `key` with well-mixed high bits (Fibonacci hashing, Knuth volume 3, 6.4).
[[nodiscard]] constexpr std::uint64_t scramble(std::uint64_t key) noexcept {
    return key * 0x9E3779B97F4A7C15U;
}

/// The one cell that all empty hash tables share. It is never written, so a shared library may use
/// a copy of its own.
template <class Cell>
inline Cell no_cells{};

/// The array of cells of a hash table. A cell has room for one entry. The number of cells is a
/// power of two. All empty tables share one cell, which is never written.
///
/// Failure   The constructor throws `std::bad_alloc`; no other function fails.
/// Threads   One thread at a time.
template <class Cell>
class hash_cells {
public:
    hash_cells() = default;
    /// Allocates `count` cells and sets them to zero. `count` must be a result of `enough`.
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
        // Frees the cells if they were allocated: only then `mask_` is not 0. The second condition
        // is always true then, and only prevents a warning of g++.
        if (mask_ != 0 && cells_ != &detail::no_cells<Cell>) { ::operator delete(cells_); }
    }

    /// Returns how many cells the table needs for `size` keys: a power of two, and not less than
    /// the present number. The function `room(cells)` returns how many keys fit in `cells` cells.
    template <class Room>
    [[nodiscard]] std::size_t enough(std::size_t size, Room const& room) const noexcept {
        std::size_t cells = count() > least ? count() : least;
        while (size > room(cells)) { cells *= 2; }
        return cells;
    }
    [[nodiscard]] std::size_t count() const noexcept { return mask_ + 1; }

    /// Returns the index of the cell where a search for `key` begins.
    [[nodiscard]] std::size_t home(std::uint64_t key) const noexcept {
        return static_cast<std::size_t>(scramble(key) >> shift_) & mask_;
    }
    /// Returns the index of the next cell in a search. The first cell follows the last one.
    [[nodiscard]] std::size_t after(std::size_t i) const noexcept { return (i + 1) & mask_; }
    /// Returns the number of steps of a search from the cell with the index `from` to the cell with
    /// the index `to`. A search goes from the last cell to the first.
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
    std::size_t mask_  = 0; ///< number of cells minus one; 0 if the table has allocated none
    unsigned    shift_ = 63;
};

} // namespace detail
} // namespace vram
