// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_map` finds what belongs to an address, or to any other number.

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <cstring> // memset
#include <new>     // operator new
#include <utility> // exchange

namespace vram {

namespace detail {
template <class Value>
struct map_cell {
    std::uint64_t key   = 0;
    Value*        value = nullptr; ///< null: the cell is free
};
/// The table of those without one: never written. Each library may have its own.
template <class Value>
inline map_cell<Value> no_cells{};
} // namespace detail

/// A hash table from numbers to pointers: open addressing with linear probes, and without
/// tombstones, so that it does not age. A quarter full at most, where probes hardly ever meet;
/// half full where it is so large that the cache counts more.
///
/// Failure   `std::bad_alloc` from `reserve`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      one multiplication and about one cache line per call, at any size
template <class Value>
class address_map {
public:
    address_map() = default;
    address_map(address_map&& other) noexcept { swap(other); }
    address_map& operator=(address_map&& other) noexcept {
        address_map fresh{std::move(other)};
        swap(fresh);
        return *this;
    }
    ~address_map() {
        if (mask_ != 0) { ::operator delete(cells_); }
    }

    /// Makes room for `more` further entries.
    void reserve(std::size_t more) {
        std::size_t cells = mask_ + 1 > least ? mask_ + 1 : least;
        while (size_ + more > room(cells)) { cells *= 2; }
        if (cells == mask_ + 1) { return; }
        address_map fresh;
        fresh.cells_ = static_cast<cell*>(::operator new(cells * sizeof(cell)));
        fresh.mask_  = cells - 1;
        fresh.shift_ = 64;
        for (std::size_t n = cells; n > 1; n /= 2) { --fresh.shift_; }
        std::memset(static_cast<void*>(fresh.cells_), 0, cells * sizeof(cell));
        for (std::size_t i = 0; i <= mask_; ++i) {
            if (cells_[i].value != nullptr) { fresh.insert(cells_[i].key, cells_[i].value); }
        }
        swap(fresh);
    }

    /// Whether there is room for one more.
    [[nodiscard]] bool has_room() const noexcept { return size_ < room(mask_ + 1); }

    /// Adds a key that is not there yet; room was made by `reserve`. `value` is not null.
    void insert(std::uint64_t key, Value* value) noexcept {
        std::size_t i = home(key);
        while (cells_[i].value != nullptr) { i = (i + 1) & mask_; }
        cells_[i] = {key, value};
        ++size_;
    }

    /// What belongs to `key`, or null.
    [[nodiscard, gnu::always_inline]] Value* find(std::uint64_t key) const noexcept {
        std::size_t i = home(key);
        // A free cell may still have its old key: there the answer is null as well.
        while (cells_[i].key != key && cells_[i].value != nullptr) { i = (i + 1) & mask_; }
        return cells_[i].value;
    }

    /// Takes out a key that is there, and moves up those that it had pushed on.
    void erase(std::uint64_t key) noexcept {
        std::size_t hole = home(key);
        while (cells_[hole].key != key || cells_[hole].value == nullptr) {
            hole = (hole + 1) & mask_;
        }
        for (std::size_t i = (hole + 1) & mask_; cells_[i].value != nullptr; i = (i + 1) & mask_) {
            if (((i - home(cells_[i].key)) & mask_) >= ((i - hole) & mask_)) {
                cells_[hole] = cells_[i];
                hole         = i;
            }
        }
        cells_[hole].value = nullptr;
        --size_;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    using cell = detail::map_cell<Value>;

    /// How many entries so many cells are for.
    [[nodiscard]] static constexpr std::size_t room(std::size_t cells) noexcept {
        return cells <= 32'768 ? cells / 4 : cells / 2;
    }
    /// Fibonacci hashing (Knuth, volume 3, section 6.4): the high bits of the product are well
    /// mixed.
    [[nodiscard]] std::size_t home(std::uint64_t key) const noexcept {
        return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> shift_) & mask_;
    }
    void swap(address_map& other) noexcept {
        cells_ = std::exchange(other.cells_, cells_);
        size_  = std::exchange(other.size_, size_);
        mask_  = std::exchange(other.mask_, mask_);
        shift_ = std::exchange(other.shift_, shift_);
    }

    static constexpr std::size_t least = 128;

    cell*       cells_ = &detail::no_cells<Value>;
    std::size_t size_  = 0;
    std::size_t mask_  = 0; ///< one less than the number of cells (a power of two); 0: no own table
    unsigned    shift_ = 63;
};

} // namespace vram
