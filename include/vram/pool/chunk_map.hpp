// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `chunk_map` finds the owner of an address among chunks.

#include <vram/pool/heap_array.hpp> // heap_array

#include <cstddef> // size_t
#include <cstdint> // uintptr_t

namespace vram {

/// Chunks in the order of their addresses, each with the number of its owner.
///
/// Failure   `std::bad_alloc` from `reserve`, with nothing changed; nothing else fails
/// Threads   one at a time
/// Cost      `find`: the logarithm of the number of chunks; `insert` and `erase` move what lies
///           behind
class chunk_map {
public:
    static constexpr unsigned nobody = ~0U;

    /// Makes room for `more` further chunks.
    void reserve(std::size_t more) { chunks_.reserve(chunks_.size() + more); }

    /// Adds a chunk, which overlaps with none; room was made by `reserve`.
    void insert(void const* base, std::size_t bytes, unsigned owner) noexcept {
        auto const        first = reinterpret_cast<std::uintptr_t>(base);
        std::size_t const at    = behind(first);
        chunks_.push();
        for (std::size_t i = chunks_.size() - 1; i > at; --i) { chunks_[i] = chunks_[i - 1]; }
        chunks_[at] = {first, first + bytes, owner};
    }
    /// Takes out the chunk at `base`, which is there.
    void erase(void const* base) noexcept {
        std::size_t const next = behind(reinterpret_cast<std::uintptr_t>(base));
        for (std::size_t i = next; i < chunks_.size(); ++i) { chunks_[i - 1] = chunks_[i]; }
        chunks_.pop();
    }

    /// Whose chunk `p` lies in, or `nobody`.
    [[nodiscard]] unsigned find(void const* p) const noexcept {
        auto const        address = reinterpret_cast<std::uintptr_t>(p);
        std::size_t const next    = behind(address);
        return next != 0 && address < chunks_[next - 1].end ? chunks_[next - 1].owner : nobody;
    }
    [[nodiscard]] std::size_t size() const noexcept { return chunks_.size(); }

private:
    struct chunk {
        std::uintptr_t begin = 0;
        std::uintptr_t end   = 0;
        unsigned       owner = nobody;
    };

    /// The first chunk that begins behind `address`.
    [[nodiscard]] std::size_t behind(std::uintptr_t address) const noexcept {
        std::size_t low = 0, high = chunks_.size();
        while (low != high) {
            std::size_t const middle = low + (high - low) / 2;
            (chunks_[middle].begin <= address ? low : high) =
                chunks_[middle].begin <= address ? middle + 1 : middle;
        }
        return low;
    }

    heap_array<chunk> chunks_;
};

} // namespace vram
