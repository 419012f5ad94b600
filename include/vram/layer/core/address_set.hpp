// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `address_set` is a hash set of addresses.

#include <vram/base/core/heap_array.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A set of non-null addresses: a hash table with open addressing. Erasing leaves no marker behind.
///
/// Failure   Only `reserve` allocates. It throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
/// Cost      Constant on average.
class address_set {
public:
    address_set() = default;
    address_set(address_set&& other) noexcept
        : slots_{std::move(other.slots_)}, count_{std::exchange(other.count_, 0)} {}
    address_set& operator=(address_set&& other) noexcept {
        slots_ = std::move(other.slots_);
        count_ = std::exchange(other.count_, 0);
        return *this;
    }

    /// Makes room for `more` further addresses, so that as many calls of `insert` may follow.
    void reserve(std::size_t more) {
        std::size_t size = slots_.size() == 0 ? 16 : slots_.size();
        while (2 * (count_ + more) > size) { size *= 2; }
        if (size == slots_.size()) { return; }
        heap_array<std::uintptr_t> fresh;
        fresh.reserve(size);
        while (fresh.size() != size) { fresh.push(std::uintptr_t{0}); }
        heap_array<std::uintptr_t> const old = std::exchange(slots_, std::move(fresh));
        for (std::uintptr_t const address : old) {
            if (address != 0) { slots_[place_of(address)] = address; }
        }
    }

    /// Adds `p`, which must not be null and not be in the set. `reserve` must have made room for
    /// it.
    void insert(void const* p) noexcept {
        auto const address        = reinterpret_cast<std::uintptr_t>(p);
        slots_[place_of(address)] = address;
        ++count_;
    }

    /// Removes `p`. Returns true if it was in the set.
    bool erase(void const* p) noexcept {
        // Null is never in the set: the value 0 marks an unused slot.
        if (count_ == 0 || p == nullptr) { return false; }
        auto const  address = reinterpret_cast<std::uintptr_t>(p);
        std::size_t hole    = place_of(address);
        if (slots_[hole] != address) { return false; }
        for (std::size_t at = next(hole); slots_[at] != 0; at = next(at)) {
            // A search for the entry in slot `at` must not end at the empty slot `hole`. If it
            // would pass `hole`, the entry is moved there, and its old slot becomes the new `hole`.
            std::size_t const home = hash(slots_[at]);
            if (((at - home) & mask()) >= ((at - hole) & mask())) {
                slots_[hole] = slots_[at];
                hole         = at;
            }
        }
        slots_[hole] = 0;
        --count_;
        return true;
    }

    [[nodiscard]] bool contains(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        return count_ != 0 && address != 0 && slots_[place_of(address)] == address;
    }
    [[nodiscard]] std::size_t size() const noexcept { return count_; }

private:
    [[nodiscard]] std::size_t mask() const noexcept { return slots_.size() - 1; }
    [[nodiscard]] std::size_t next(std::size_t at) const noexcept { return (at + 1) & mask(); }

    /// Returns the slot at which the search for an address starts (Fibonacci hashing).
    [[nodiscard]] std::size_t hash(std::uintptr_t address) const noexcept {
        std::uint64_t const product = std::uint64_t{address} * 0x9e37'79b9'7f4a'7c15U;
        return static_cast<std::size_t>(product >> 32) & mask();
    }

    /// Returns the slot that contains `address`, or else the unused slot to store it in.
    [[nodiscard]] std::size_t place_of(std::uintptr_t address) const noexcept {
        std::size_t at = hash(address);
        while (slots_[at] != 0 && slots_[at] != address) { at = next(at); }
        return at;
    }

    /// The addresses; 0 marks a free slot. The number of slots is 0 or a power of two.
    heap_array<std::uintptr_t> slots_;
    std::size_t                count_ = 0;
};

} // namespace detail
} // namespace vram
