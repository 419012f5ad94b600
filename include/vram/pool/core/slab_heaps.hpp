// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_heaps` are the heaps of a slab or a `binned`, each for blocks of one size.

#include <vram/base/core/heap_array.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/pool/core/slab_heap.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef> // size_t

namespace vram {
namespace detail {

/// An array of `slab_heap`s. Each function returns the result for all heaps together.
///
/// Failure   `push` and `reserve` throw `std::bad_alloc`. No other function fails.
/// Threads   One thread at a time.
/// Cost      Linear in the number of heaps, and of `free_memory` in the number of chunks.
class slab_heaps : public heap_array<slab_heap> {
public:
    /// Returns true if `p` lies in a chunk of one of the heaps.
    [[nodiscard]] bool owns(void const* p) const noexcept {
        for (slab_heap const& heap : *this) {
            if (heap.owns(p)) { return true; }
        }
        return false;
    }
    /// Adds the reason to the error of a rejected free. Returns false if the address is in no
    /// block.
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
    /// Returns the size of the largest free block.
    [[nodiscard]] std::size_t largest_free() const noexcept {
        std::size_t most = 0;
        for (slab_heap const& heap : *this) {
            if (heap.blocks_free() != 0 && heap.stride() > most) { most = heap.stride(); }
        }
        return most;
    }
    /// Returns the number and the sizes of the free pieces of memory.
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
