// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_finder` finds the chunk that contains an address.

#include <vram/base/core/address_map.hpp>

#include <bit> // bit_width
#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A hash table that finds the chunk that contains an address. The key is formed by the upper bits
/// of a chunk's first address. A search tries at most two keys. `Chunk` has `base`, `bytes` and
/// `beside`, the link to the next chunk with the same key. Chunks must not overlap.
///
/// Failure   `reserve` throws `std::bad_alloc` and changes nothing.
/// Threads   One thread at a time.
template <class Chunk>
class chunk_finder {
public:
    /// Creates an empty table for chunks of at most `longest` bytes.
    explicit chunk_finder(std::size_t longest) noexcept
        : shift_{static_cast<int>(std::bit_width(longest - 1))} {}
    chunk_finder(chunk_finder&& other) noexcept
        : shift_{other.shift_},
          first_{std::move(other.first_)},
          recent_{std::exchange(other.recent_, nullptr)} {}
    chunk_finder& operator=(chunk_finder&& other) noexcept {
        shift_  = other.shift_;
        first_  = std::move(other.first_);
        recent_ = std::exchange(other.recent_, nullptr);
        return *this;
    }

    /// Makes room in the table, so that the next `add` cannot fail.
    void reserve() { first_.reserve(1); }
    void add(Chunk& c) noexcept {
        std::uint64_t const k = stretch_of(c);
        c.beside              = first_.find(k);
        if (c.beside != nullptr) { first_.erase(k); }
        first_.insert(k, &c);
    }
    void remove(Chunk& c) noexcept {
        std::uint64_t const k     = stretch_of(c);
        Chunk*              first = first_.find(k);
        first_.erase(k);
        Chunk** link = &first;
        while (*link != &c) { link = &(*link)->beside; }
        *link = c.beside;
        if (first != nullptr) { first_.insert(k, first); }
        if (recent_ == &c) { recent_ = nullptr; }
    }

    /// Returns the chunk that contains `p`, or null.
    [[nodiscard]] Chunk* find(void const* p) const noexcept {
        if (recent_ != nullptr && holds(*recent_, p)) { return recent_; }
        std::uint64_t const here = reinterpret_cast<std::uintptr_t>(p) >> shift_;
        for (std::uint64_t const k : {here, here - 1}) {
            for (Chunk* c = first_.find(k); c != nullptr; c = c->beside) {
                if (holds(*c, p)) { return c; }
            }
        }
        return nullptr;
    }
    /// Returns the chunk that contains `p`, or null. The next search in the same chunk needs no
    /// table lookup.
    [[nodiscard]] Chunk* find_again(void const* p) noexcept {
        Chunk* const c = find(p);
        if (c != nullptr) { recent_ = c; }
        return c;
    }

private:
    [[nodiscard]] static bool holds(Chunk const& c, void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(c.base) <
               c.bytes;
    }
    [[nodiscard]] std::uint64_t stretch_of(Chunk const& c) const noexcept {
        return reinterpret_cast<std::uintptr_t>(c.base) >> shift_;
    }

    int shift_;
    /// Maps each key (a chunk's first address, shifted right by `shift_` bits) to a list of the
    /// chunks with this key. The list is linked by `beside`.
    address_map<Chunk> first_;
    Chunk*             recent_ = nullptr;
};

} // namespace detail
} // namespace vram
