// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_finder` finds the chunk around an address.

#include <vram/pool/address_map.hpp> // address_map

#include <bit>     // bit_width
#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // exchange

namespace vram {

/// Addresses are cut into stretches as long as the longest chunk, so that a chunk around an address
/// begins in the stretch of it or in the one before. A chunk has `base`, `bytes`, and `beside`, a
/// link for those that begin in one stretch; chunks do not overlap.
///
/// Failure   `std::bad_alloc` from `reserve`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      two looks into a table at most, and none where the last chunk that was found again is
///           the one
template <class Chunk>
class chunk_finder {
public:
    /// No chunk will be longer than `longest`.
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

    /// Makes sure that `add` cannot fail once.
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

    /// The chunk around `p`, or null.
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
    /// The same, for one who will probably ask for addresses in it again.
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

    int                shift_; ///< stretches are told apart by the bits from here on
    address_map<Chunk> first_; ///< by stretch
    Chunk*             recent_ = nullptr;
};

} // namespace vram
