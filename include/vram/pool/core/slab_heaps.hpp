// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_heaps` are the heaps of a slab or a `binned`, each for blocks of one size.

#include <vram/base/align.hpp> // valid_alignment
#include <vram/base/core/heap_array.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/pool/core/size_classes.hpp>
#include <vram/pool/core/slab_heap.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef>

namespace vram {
namespace detail {

/// An array of `slab_heap`s, by ascending block size. Queries return the result for all heaps
/// together.
///
/// Failure   `push` and `reserve` throw `std::bad_alloc`.
/// Threads   One thread at a time.
/// Cost      Linear in the number of heaps; `free_memory` in the number of blocks.
class slab_heaps : public heap_array<slab_heap> {
public:
    /// Adds a heap for each of the `size_classes` up to the one that holds `most` bytes.
    void add_classes(std::size_t most) {
        std::size_t const count = size_classes::of(most) + 1;
        reserve(count);
        for (std::size_t i = 0; i < count; ++i) { push(size_classes::bytes(i)); }
    }
    /// Returns the heap of the smallest size class that can serve a request, or null. Requires
    /// `add_classes` before.
    [[nodiscard]] slab_heap const* for_request(std::size_t bytes,
                                               std::size_t alignment) const noexcept {
        if (bytes - 1 >= largest() || !valid_alignment(alignment) || alignment > largest()) {
            return nullptr;
        }
        std::size_t const i = size_classes::of(bytes, alignment);
        return i < size() && alignment <= (*this)[i].alignment() ? &(*this)[i] : nullptr;
    }
    [[nodiscard]] slab_heap* for_request(std::size_t bytes, std::size_t alignment) noexcept {
        return const_cast<slab_heap*>(
            static_cast<slab_heaps const*>(this)->for_request(bytes, alignment));
    }
    /// Returns the block size of the last heap, the largest: heaps are added by ascending size.
    [[nodiscard]] std::size_t largest() const noexcept { return (*this)[size() - 1].stride(); }
    /// Returns true if `p` lies in a chunk of one of these heaps (one for each block size), in a
    /// live block or not.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        for (slab_heap const& heap : *this) {
            if (heap.owns(p)) { return true; }
        }
        return false;
    }
    /// If a block contains the address of the rejected free `e`, adds to `e` whether this block is
    /// live or free. Returns true if there is such a block.
    [[gnu::cold]] bool explain_refusal(refused_free& e) const noexcept {
        for (slab_heap const& heap : *this) {
            if (heap.explain_refusal(e)) { return true; }
        }
        return false;
    }
    [[nodiscard]] std::size_t chunk_count() const noexcept {
        std::size_t sum = 0;
        for (slab_heap const& heap : *this) { sum += heap.chunks().size(); }
        return sum;
    }
    [[nodiscard]] std::size_t blocks_live() const noexcept {
        std::size_t sum = 0;
        for (slab_heap const& heap : *this) { sum += heap.blocks_live(); }
        return sum;
    }
    [[nodiscard]] std::size_t free_bytes() const noexcept {
        std::size_t sum = 0;
        for (slab_heap const& heap : *this) { sum += heap.blocks_free() * heap.stride(); }
        return sum;
    }
    /// Returns the size of the largest free block, or 0 if there is none.
    [[nodiscard]] std::size_t largest_free() const noexcept {
        std::size_t most = 0;
        for (slab_heap const& heap : *this) {
            if (heap.blocks_free() != 0 && heap.stride() > most) { most = heap.stride(); }
        }
        return most;
    }
    /// Returns the free blocks of all heaps, by size, and the bytes of the chunks that `trim` can
    /// return.
    [[nodiscard]] free_pieces free_memory() const {
        free_pieces now;
        for (slab_heap const& heap : *this) {
            now.add(heap.stride(), heap.blocks_free());
            for (slab_heap::chunk const* c : heap.chunks()) {
                if (c->live == 0 && !c->has_retained()) { now.releasable += c->bytes; }
            }
        }
        return now;
    }
};

} // namespace detail
} // namespace vram
