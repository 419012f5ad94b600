// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_chunks` are the chunks of a heap, each a row of blocks.

#include <vram/pool/block.hpp>      // block
#include <vram/pool/heap_array.hpp> // heap_array

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <utility> // exchange, move

namespace vram {

/// What was had from the upstream, and where its blocks begin.
///
/// Failure   `std::bad_alloc` from `reserve`; nothing else fails
/// Threads   one at a time
/// Cost      who asks for a chunk by its place looks through them
class block_chunks {
public:
    /// What one chunk is: its first block stays its first for as long as the chunk is here.
    struct chunk {
        block*      first     = nullptr;
        void*       base      = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;     ///< what the upstream was asked for
        bool        busy      = false; ///< its end is being moved: it stays as it is meanwhile

        [[nodiscard]] std::uintptr_t end() const noexcept {
            return reinterpret_cast<std::uintptr_t>(base) + bytes;
        }
        /// Whether all of it is free, in one block.
        [[nodiscard]] bool idle() const noexcept {
            return first->now == block::state::free && first->after == nullptr;
        }
    };

    block_chunks() = default;
    block_chunks(block_chunks&& other) noexcept { *this = std::move(other); }
    block_chunks& operator=(block_chunks&& other) noexcept {
        chunks_   = std::move(other.chunks_);
        reserved_ = std::exchange(other.reserved_, 0);
        return *this;
    }
    ~block_chunks() = default;

    /// Makes room for one more, which `add` adds, and `take` takes out.
    void reserve() { chunks_.reserve(chunks_.size() + 1); }
    void add(chunk const& c) noexcept {
        chunks_.push(c);
        reserved_ += c.bytes;
    }
    chunk take(std::size_t index) noexcept {
        chunk const gone = chunks_.take(index);
        reserved_ -= gone.bytes;
        return gone;
    }
    /// A chunk has `by` more bytes at its end, modulo 2^64.
    void extend(chunk& c, std::size_t by) noexcept {
        c.bytes += by;
        reserved_ += by;
    }

    [[nodiscard]] std::size_t  size() const noexcept { return chunks_.size(); }
    [[nodiscard]] chunk const& operator[](std::size_t i) const noexcept { return chunks_[i]; }
    [[nodiscard]] auto         begin() const noexcept { return chunks_.begin(); }
    [[nodiscard]] auto         end() const noexcept { return chunks_.end(); }
    /// Bytes of all of them.
    [[nodiscard]] std::size_t reserved() const noexcept { return reserved_; }

    /// Calls `visit(block)` for every block, chunk by chunk, in the order of addresses.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) { visit(*b); }
        }
    }

    /// Whether `p` lies in one of the chunks. Cost: the number of chunks.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        for (chunk const& c : chunks_) {
            if (address - reinterpret_cast<std::uintptr_t>(c.base) < c.bytes) { return true; }
        }
        return false;
    }
    /// Whether a chunk begins at `base`.
    [[nodiscard]] bool is_chunk(void const* base) const noexcept {
        for (chunk const& c : chunks_) {
            if (c.base == base) { return true; }
        }
        return false;
    }
    /// The chunk that begins at `base`, which there is.
    chunk& at(void const* base) noexcept {
        chunk* c = chunks_.begin();
        while (c->base != base) { ++c; }
        return *c;
    }
    /// The chunk that ends with a block.
    chunk& around(block const* tail) noexcept {
        chunk* c = chunks_.begin();
        while (c->end() != tail->end()) { ++c; }
        return *c;
    }

private:
    heap_array<chunk> chunks_;
    std::size_t       reserved_ = 0;
};

} // namespace vram
