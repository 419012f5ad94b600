// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `block_chunks` is the list of the chunks of a heap, each a row of blocks.

#include <vram/base/core/heap_array.hpp>
#include <vram/order/core/availability.hpp>
#include <vram/pool/core/block.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The list of chunks that a heap received from the upstream, each with its first block.
///
/// Failure   `reserve` throws `std::bad_alloc`. No other function fails.
/// Threads   One thread at a time.
/// Cost      Finding a chunk by an address is a linear search through the chunks.
class block_chunks {
public:
    /// A chunk from the upstream. Its blocks form a list in the order of addresses, from `first`
    /// along `block::after`. `first` is the same descriptor as long as the chunk exists.
    struct chunk {
        block*      first     = nullptr;
        void*       base      = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0; ///< the alignment of the allocation from the upstream
        /// True while a thread changes the size of the chunk. Meanwhile, no other thread may change
        /// its size or return the chunk to the upstream.
        bool busy = false;

        [[nodiscard]] std::uintptr_t end() const noexcept {
            return reinterpret_cast<std::uintptr_t>(base) + bytes;
        }
        /// Returns true if the whole chunk is one free block.
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

    /// Makes room for one more chunk, so that the next `add` cannot fail.
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
    /// Records that the chunk has become `by` bytes larger at its end.
    void extend(chunk& c, std::size_t by) noexcept {
        c.bytes += by;
        reserved_ += by;
    }

    [[nodiscard]] std::size_t  size() const noexcept { return chunks_.size(); }
    [[nodiscard]] chunk const& operator[](std::size_t i) const noexcept { return chunks_[i]; }
    [[nodiscard]] auto         begin() const noexcept { return chunks_.begin(); }
    [[nodiscard]] auto         end() const noexcept { return chunks_.end(); }
    [[nodiscard]] std::size_t  reserved() const noexcept { return reserved_; }

    template <class Visit>
    void for_each(Visit const& visit) const {
        for (chunk const& c : chunks_) {
            for (block* b = c.first; b != nullptr; b = b->after) { visit(*b); }
        }
    }

    /// Returns the index of the unused chunk with the lowest `cost(block)`, or of the largest of
    /// several such chunks. An unused chunk is one free block and is not `busy`. Returns `size()`
    /// if there is no unused chunk, or if every cost is `unavailable`.
    template <class Cost>
    [[nodiscard]] std::size_t idle(Cost const& cost) const {
        std::size_t found = size();
        auto        least = availability::unavailable;
        for (std::size_t i = 0; i < size(); ++i) {
            if (chunks_[i].busy || !chunks_[i].idle()) { continue; }
            availability const here = cost(*chunks_[i].first);
            if (here < least || (here == least && here != availability::unavailable &&
                                 chunks_[i].bytes > chunks_[found].bytes)) {
                found = i;
                least = here;
            }
        }
        return found;
    }

    /// Returns true if `p` lies in one of the chunks. Cost: linear in the number of chunks.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        auto const address = reinterpret_cast<std::uintptr_t>(p);
        for (chunk const& c : chunks_) {
            if (address - reinterpret_cast<std::uintptr_t>(c.base) < c.bytes) { return true; }
        }
        return false;
    }
    [[nodiscard]] bool is_chunk(void const* base) const noexcept {
        for (chunk const& c : chunks_) {
            if (c.base == base) { return true; }
        }
        return false;
    }
    /// Returns the chunk that begins at `base`, which must exist.
    chunk& at(void const* base) noexcept {
        chunk* c = chunks_.begin();
        while (c->base != base) { ++c; }
        return *c;
    }
    /// Returns the chunk whose last block is `tail`. It must exist.
    chunk& around(block const* tail) noexcept {
        chunk* c = chunks_.begin();
        while (c->end() != tail->end()) { ++c; }
        return *c;
    }

private:
    heap_array<chunk> chunks_;
    std::size_t       reserved_ = 0;
};

} // namespace detail
} // namespace vram
