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

/// The one cell of every empty table. Never written, so shared libraries may have separate copies.
template <class Cell>
inline Cell no_cells{};

/// The array of cells of a hash table. The number of cells is a power of two. An empty table has
/// one cell, which is only read.
///
/// Failure   The constructor throws `std::bad_alloc`; no other function fails.
/// Threads   One thread at a time.
template <class Cell>
class hash_cells {
public:
    hash_cells() = default;
    /// Allocates `count` zeroed cells. `count` must be a result of `enough`: a power of two, at
    /// least `least`.
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
        // `mask_ != 0` alone means that `cells_` was allocated. The second condition, which follows
        // from it, prevents a warning of g++.
        if (mask_ != 0 && cells_ != &detail::no_cells<Cell>) { ::operator delete(cells_); }
    }

    /// Returns how many cells the table needs for `size` keys: a power of two, at least the present
    /// number. `room(cells)` returns how many keys fit in `cells` cells.
    template <class Room>
    [[nodiscard]] std::size_t enough(std::size_t size, Room const& room) const noexcept {
        std::size_t cells = count() > least ? count() : least;
        while (size > room(cells)) { cells *= 2; }
        return cells;
    }
    [[nodiscard]] std::size_t count() const noexcept { return mask_ + 1; }

    /// `home` returns the index of the cell where the search for `key` begins; `after` that of the
    /// cell searched next, cyclically.
    [[nodiscard]] std::size_t home(std::uint64_t key) const noexcept {
        return static_cast<std::size_t>(scramble(key) >> shift_) & mask_;
    }
    [[nodiscard]] std::size_t after(std::size_t i) const noexcept { return (i + 1) & mask_; }
    /// Returns the number of steps of a cyclic linear search from the cell `from` to the cell `to`.
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
    std::size_t mask_  = 0; ///< number of cells minus one; 0 if no memory is allocated
    unsigned    shift_ = 63;
};

} // namespace detail
} // namespace vram
