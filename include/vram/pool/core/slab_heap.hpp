// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_heap` divides chunks into blocks of one size, without knowledge of streams.

#include <vram/base/align.hpp>
#include <vram/base/bytes.hpp> // literals
#include <vram/base/core/heap_array.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/pool/core/block_stride.hpp>
#include <vram/pool/core/chunk_finder.hpp>
#include <vram/pool/core/slab_chunk.hpp>
#include <vram/pool/core/slab_free_lists.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// A heap of blocks of one size. A free block that no stream uses is *clean*. Clean blocks are
/// allocated from one chunk first, so that other chunks become empty. A free block that is not
/// clean is in a list of the stream that freed it, or is kept for captured graphs.
///
/// Failure   `reserve_slot` and `add` throw `std::bad_alloc` and change nothing.
/// Threads   One thread at a time.
class slab_heap {
public:
    static constexpr std::size_t granule = 256; ///< every block size is a multiple of this
    static constexpr std::size_t largest = std::size_t{1} << 56;

    using chunk = slab_chunk;
    using entry = slab_chunk::entry;
    using place = slab_chunk::place;

    explicit slab_heap(std::size_t block_bytes) noexcept
        : stride_{align(block_bytes, granule)}, finder_{most() * stride()} {}
    slab_heap(slab_heap&& other) noexcept : slab_heap{other.stride()} { *this = std::move(other); }
    slab_heap& operator=(slab_heap&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        stride_      = other.stride_;
        finder_      = std::move(other.finder_);
        chunks_      = std::move(other.chunks_);
        free_lists_  = std::move(other.free_lists_);
        with_clean_  = std::exchange(other.with_clean_, nullptr);
        quarantined_ = std::exchange(other.quarantined_, nullptr);
        total_       = std::exchange(other.total_, 0);
        live_        = std::exchange(other.live_, 0);
        return *this;
    }
    ~slab_heap() { drop(); }

    [[nodiscard]] std::size_t stride() const noexcept { return stride_.bytes(); }
    /// Returns the alignment of every block: the largest power of two that divides the size, at
    /// most 2 MiB.
    [[nodiscard]] std::size_t alignment() const noexcept {
        return stride_.alignment() < 2_MiB ? stride_.alignment() : 2_MiB;
    }
    /// Returns the number of blocks for the next chunk, which usually doubles the heap. The result
    /// is at least what fits into 64 KiB, at least 1, and at most `most()`.
    [[nodiscard]] std::size_t wanted() const noexcept {
        std::size_t const least = 64_KiB / stride();
        std::size_t const n     = total_ > least ? total_ : least;
        return n < 1 ? 1 : (n > most() ? most() : n);
    }
    /// Returns the largest number of blocks of a chunk: as many as fit into 2 MiB, but at least 8.
    [[nodiscard]] std::size_t most() const noexcept {
        std::size_t const n = 2_MiB / stride();
        return n < 8 ? 8 : n;
    }

    /// Creates the lists of freed blocks of the stream with the index `slot`, if necessary, so that
    /// a free cannot fail.
    void                      reserve_slot(std::size_t slot) { free_lists_.reserve(slot); }
    [[nodiscard]] std::size_t slots() const noexcept { return free_lists_.size(); }

    /// Allocates the block that the stream `slot` freed last, or returns null.
    [[nodiscard]] entry* take_own(std::size_t slot) noexcept {
        entry* const n = free_lists_.take_newest(slot);
        return n != nullptr ? hand_out(n) : nullptr;
    }
    /// Allocates a block during a capture of the stream with the index `slot`: the block freed last
    /// among those kept for graphs captured on this stream. Returns null if there is none.
    [[nodiscard]] entry* take_retained(std::size_t slot) noexcept {
        entry* const n = take(free_lists_.retained(slot));
        if (n != nullptr) { n->in_graph = true; }
        return n;
    }
    /// Allocates a clean block (free, used by no stream): the lowest of the first chunk that has
    /// one. Returns null if there is none.
    [[nodiscard]] entry* take_clean() noexcept {
        chunk* const c = with_clean_;
        if (c == nullptr) { return nullptr; }
        entry* const n = c->take_lowest();
        if (c->clean == 0) { unlist(*c); }
        ++live_;
        return n;
    }
    [[nodiscard]] bool has_clean() const noexcept { return with_clean_ != nullptr; }
    /// Makes the free block `n` of a stream's list live, and returns it. `n` may be null.
    entry* take(entry* n) noexcept {
        if (n == nullptr) { return nullptr; }
        free_lists_.remove(*n);
        return hand_out(n);
    }
    /// Returns the free block that the stream `slot` freed first, or null.
    [[nodiscard]] entry* oldest(std::size_t slot) const noexcept {
        return free_lists_.oldest(slot);
    }
    [[nodiscard]] entry* newest(std::size_t slot) const noexcept {
        return free_lists_.newest(slot);
    }

    /// Returns the live block that begins at `p`, or null.
    [[nodiscard]] entry* find(void const* p) noexcept {
        chunk* const c = finder_.find_again(p);
        if (c == nullptr) { return nullptr; }
        std::size_t const offset =
            reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(c->base);
        std::size_t const i = stride_.index(offset);
        if (i >= c->entries.size()) { return nullptr; }
        entry* const n = &c->entries[i];
        return n->address == p && n->at == place::live ? n : nullptr;
    }

    /// If a block contains the address of the rejected free `e`, adds to `e` whether this block is
    /// live or free. Returns true if there is such a block.
    [[gnu::cold]] bool explain_refusal(refused_free& e) const noexcept {
        chunk const* const c = finder_.find(e.what.pointer);
        if (c == nullptr) { return false; }
        std::size_t const offset = reinterpret_cast<std::uintptr_t>(e.what.pointer) -
                                   reinterpret_cast<std::uintptr_t>(c->base);
        // The bytes behind the last whole block of a chunk belong to no block.
        if (offset / stride() >= c->entries.size()) { return false; }
        entry const& n = c->entries[offset / stride()];
        n.at == place::live ? e.found_live(n.address, n.asked, std::size_t{1} << n.shift)
                            : e.found_free();
        return true;
    }

    /// Frees a live block that no stream uses.
    void give_clean(entry* n) noexcept {
        chunk& c = *n->home;
        --live_;
        c.make_clean(*n);
        if (c.clean == 1) { list(c); }
    }
    /// Frees a live block that the stream with the index `slot` may still use until `epoch` (a part
    /// of the stream's work) is complete. The epochs of one stream must not decrease.
    void give(entry* n, std::size_t slot, std::uint64_t epoch) noexcept {
        --live_;
        n->home->make_pending(*n, slot, epoch);
        free_lists_.add(n);
    }
    /// Undoes the allocation of `n`, which was the oldest free block of the stream with the index
    /// `slot`. `n` becomes the oldest block in the list of that stream again. `epoch`: the part of
    /// the stream's work in which `n` was freed.
    void give_oldest(entry* n, std::size_t slot, std::uint64_t epoch) noexcept {
        --live_;
        n->home->make_pending(*n, slot, epoch);
        free_lists_.add_oldest(n);
    }
    /// Frees a live block that a captured graph may use. Until `forget_captures`, only captures of
    /// the stream with the index `slot` can allocate the block.
    void retain(entry* n, std::size_t slot) noexcept {
        --live_;
        n->home->make_pending(*n, slot, 0, place::retained);
        n->in_graph = false;
        free_lists_.add_retained(n);
    }
    /// Frees a live block that captured graphs may use, so that no stream can allocate it until
    /// `forget_captures`. The stream with the index `slot` may still use the block until its
    /// `epoch` (a part of its work) is complete. `epoch` 0: no stream uses the block.
    void quarantine(entry* n, std::size_t slot, std::uint64_t epoch) noexcept {
        --live_;
        n->home->make_pending(*n, slot, epoch, place::retained);
        n->in_graph = false;
        n->older    = std::exchange(quarantined_, n);
    }

    /// Makes freed blocks available to every stream if the streams that freed them are done with
    /// them. `done(slot, epoch)` must return true if the stream with the index `slot` has completed
    /// its `epoch` (a part of its work).
    template <class Done>
    void collect_complete(Done const& done) noexcept {
        for (std::size_t slot = 0; slot < free_lists_.size(); ++slot) {
            while (oldest(slot) != nullptr && done(slot, oldest(slot)->epoch)) {
                give_clean(take(oldest(slot)));
            }
        }
    }
    /// Frees the blocks kept for graphs. No captured graph may be running or be launched again.
    void end_captures() noexcept {
        for (chunk* c : chunks_) {
            for (entry& n : c->entries) { n.in_graph = false; }
        }
        for (std::size_t slot = 0; slot < free_lists_.size(); ++slot) {
            while (entry* const n = take(free_lists_.retained(slot))) { give_clean(n); }
        }
        while (entry* const n = quarantined_) {
            quarantined_ = n->older;
            if (n->epoch == 0) {
                give_clean(hand_out(n));
            } else {
                n->at = place::pending;
                free_lists_.add_in_order(n);
            }
        }
    }

    /// The stream that may use the blocks of a new chunk at once: the stream with the index `slot`.
    /// Other streams must wait until the part `epoch` of that stream's work is complete.
    struct holder {
        std::size_t   slot;
        std::uint64_t epoch;
    };
    void add(void* base, std::size_t bytes, holder const* held_by) {
        if (held_by != nullptr) { reserve_slot(held_by->slot); }
        chunks_.reserve(chunks_.size() + 1);
        finder_.reserve();
        auto* const fresh = new chunk{base, bytes, stride()}; // the last call that may throw
        fresh->position   = chunks_.size();
        chunks_.push(fresh);
        finder_.add(*fresh);
        live_ += fresh->live;
        total_ += fresh->live;
        // Frees the blocks of the new chunk from the highest to the lowest address, so that the
        // block with the lowest address is allocated first.
        for (std::size_t i = fresh->entries.size(); i-- != 0;) {
            if (held_by != nullptr) {
                give(&fresh->entries[i], held_by->slot, held_by->epoch);
            } else {
                give_clean(&fresh->entries[i]);
            }
        }
    }
    /// Removes a chunk of which every block is clean (free, used by no stream).
    void remove(chunk* c) noexcept {
        unlist(*c);
        finder_.remove(*c);
        chunk* const last    = chunks_[chunks_.size() - 1];
        last->position       = c->position;
        chunks_[c->position] = last;
        chunks_.pop();
        total_ -= c->entries.size();
        delete c;
    }

    [[nodiscard]] bool owns(void const* p) const noexcept { return finder_.find(p) != nullptr; }
    [[nodiscard]] heap_array<chunk*> const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t               blocks_live() const noexcept { return live_; }
    [[nodiscard]] std::size_t               blocks_free() const noexcept { return total_ - live_; }

private:
    entry* hand_out(entry* n) noexcept {
        ++live_;
        return n->home->hand_out(*n);
    }
    /// Adds a chunk to the list of chunks with clean blocks (free, used by no stream).
    void list(chunk& c) noexcept {
        c.next     = std::exchange(with_clean_, &c);
        c.previous = nullptr;
        if (c.next != nullptr) { c.next->previous = &c; }
    }
    void unlist(chunk& c) noexcept {
        (c.previous != nullptr ? c.previous->next : with_clean_) = c.next;
        if (c.next != nullptr) { c.next->previous = c.previous; }
    }
    void drop() noexcept {
        for (chunk* each : chunks_) { delete each; }
    }

    block_stride        stride_;
    chunk_finder<chunk> finder_;
    heap_array<chunk*>  chunks_;
    slab_free_lists     free_lists_;
    chunk*              with_clean_ = nullptr;
    /// Blocks freed by `quarantine`, linked by `older`. Captured graphs may use them, so that no
    /// stream can allocate them until `forget_captures`.
    entry*      quarantined_ = nullptr;
    std::size_t total_       = 0;
    std::size_t live_        = 0;
};

} // namespace detail
} // namespace vram
