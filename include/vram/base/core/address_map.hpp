// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_map` is a hash table from addresses, or other 64-bit keys, to pointers.

#include <vram/base/core/hash_cells.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A hash table from 64-bit keys to pointers. An erased entry leaves no mark, so that lookups stay
/// fast after many erasures.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing; no other function fails.
/// Threads   One thread at a time.
/// Cost      `find`, `insert` and `erase` read about one cache line; `reserve` may move all
///           entries.
template <class Value>
class address_map {
public:
    address_map() = default;
    address_map(address_map&& other) noexcept
        : cells_{std::move(other.cells_)}, size_{std::exchange(other.size_, 0)} {}
    address_map& operator=(address_map&& other) noexcept {
        cells_ = std::move(other.cells_);
        size_  = std::exchange(other.size_, 0);
        return *this;
    }
    ~address_map() = default;

    /// Allocates cells for `more` further entries, so that the next `more` inserts cannot fail.
    void reserve(std::size_t more) {
        std::size_t const count = cells_.enough(size_ + more, room);
        if (count == cells_.count()) { return; }
        hash_cells<cell> const old = std::exchange(cells_, hash_cells<cell>{count});
        for (std::size_t i = 0; i < old.count(); ++i) {
            if (old[i].value != nullptr) { put(old[i].key, old[i].value); }
        }
    }

    /// Adds an entry. `reserve` must have made room, `key` must be new, and `value` must not be
    /// null.
    void insert(std::uint64_t key, Value* value) noexcept {
        put(key, value);
        ++size_;
    }

    /// Returns the pointer stored for `key`, or null if the key is not in the table.
    [[nodiscard, gnu::always_inline]] Value* find(std::uint64_t key) const noexcept {
        std::size_t i = cells_.home(key);
        // Searches until a cell has the key, or is free (its value is null). A free cell may still
        // contain the key of an erased entry.
        while (cells_[i].key != key && cells_[i].value != nullptr) { i = cells_.after(i); }
        return cells_[i].value;
    }

    /// Removes the entry of `key`, which must be in the table. Moves entries behind it into the
    /// free cell if a search for them would stop there.
    void erase(std::uint64_t key) noexcept {
        std::size_t hole = cells_.home(key);
        while (cells_[hole].key != key || cells_[hole].value == nullptr) {
            hole = cells_.after(hole);
        }
        for (std::size_t i = cells_.after(hole); cells_[i].value != nullptr; i = cells_.after(i)) {
            std::size_t const pushed = cells_.distance(cells_.home(cells_[i].key), i);
            if (pushed >= cells_.distance(hole, i)) {
                cells_[hole] = cells_[i];
                hole         = i;
            }
        }
        cells_[hole].value = nullptr;
        --size_;
    }

    /// Calls `visit(key, value)` for each entry, in any order. `visit` must not change the table.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (std::size_t i = 0; i < cells_.count(); ++i) {
            if (cells_[i].value != nullptr) { visit(cells_[i].key, cells_[i].value); }
        }
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    struct cell {
        std::uint64_t key   = 0;
        Value*        value = nullptr; ///< the pointer stored for `key`; null if the cell is free
    };

    /// Returns the largest number of entries in a table with `cells` cells (places for one entry).
    /// It is a quarter of the cells, or half of them in a table of more than 32 768 cells.
    [[nodiscard]] static constexpr std::size_t room(std::size_t cells) noexcept {
        return cells <= 32'768 ? cells / 4 : cells / 2;
    }
    void put(std::uint64_t key, Value* value) noexcept {
        std::size_t i = cells_.home(key);
        while (cells_[i].value != nullptr) { i = cells_.after(i); }
        cells_[i] = {key, value};
    }

    hash_cells<cell> cells_;
    std::size_t      size_ = 0;
};

/// If keys are divided among 64 tables, returns the index (0 to 63) of the table for `key`. Within
/// its table, the key's cell depends on another hash, so all cells are used evenly.
[[nodiscard]] constexpr std::size_t shard_of_64(std::uint64_t key) noexcept {
    std::uint64_t const mixed = scramble(key);
    return static_cast<std::size_t>(scramble(mixed ^ mixed >> 32) >> 58);
}

} // namespace detail
} // namespace vram
