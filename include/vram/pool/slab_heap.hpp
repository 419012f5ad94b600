// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_heap` cuts chunks into blocks of one size: the heart of `slab` and `binned`, without
/// streams.

#include <vram/base/align.hpp>            // align
#include <vram/base/bytes.hpp>            // literals
#include <vram/concepts/refused_free.hpp> // refused_free
#include <vram/pool/chunk_finder.hpp>     // chunk_finder
#include <vram/pool/heap_array.hpp>       // heap_array
#include <vram/pool/slab_chunk.hpp>       // slab_chunk
#include <vram/pool/slab_shelves.hpp>     // slab_shelves

#include <bit>     // countr_zero
#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move, exchange

namespace vram {

/// Free blocks that nobody uses any more are clean: the lowest of the first chunk that has some is
/// taken, so that chunks at the end of the row run empty. Those that a stream may still use are on
/// the shelf of that stream: the stream itself takes the newest, others the oldest.
///
/// Failure   `std::bad_alloc` from `reserve_slot` and `add`, with nothing changed; nothing else
///           fails
/// Threads   one at a time
/// Cost      constant at any number of blocks
class slab_heap {
public:
    static constexpr std::size_t granule = 256; ///< every block is a multiple of it
    static constexpr std::size_t largest = std::size_t{1} << 56;

    using chunk = slab_chunk;
    using note  = slab_chunk::note;
    using place = slab_chunk::place;

    explicit slab_heap(std::size_t block_bytes) noexcept
        : stride_{align(block_bytes, granule)},
          zeros_{std::countr_zero(stride_)},
          finder_{most() * stride_} {
        std::uint64_t const odd = stride_ >> zeros_;
        inverse_                = odd; // right in three bits, and in twice as many each time
        for (int i = 0; i < 5; ++i) { inverse_ *= 2 - odd * inverse_; }
    }
    slab_heap(slab_heap&& other) noexcept
        : stride_{other.stride_},
          zeros_{other.zeros_},
          inverse_{other.inverse_},
          finder_{std::move(other.finder_)},
          chunks_{std::move(other.chunks_)},
          shelves_{std::move(other.shelves_)},
          with_clean_{std::exchange(other.with_clean_, nullptr)},
          aside_{std::exchange(other.aside_, nullptr)},
          total_{std::exchange(other.total_, 0)},
          out_{std::exchange(other.out_, 0)} {}
    slab_heap& operator=(slab_heap&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        stride_     = other.stride_;
        zeros_      = other.zeros_;
        inverse_    = other.inverse_;
        finder_     = std::move(other.finder_);
        chunks_     = std::move(other.chunks_);
        shelves_    = std::move(other.shelves_);
        with_clean_ = std::exchange(other.with_clean_, nullptr);
        aside_      = std::exchange(other.aside_, nullptr);
        total_      = std::exchange(other.total_, 0);
        out_        = std::exchange(other.out_, 0);
        return *this;
    }
    ~slab_heap() { drop(); }

    [[nodiscard]] std::size_t stride() const noexcept { return stride_; }
    /// What every block is aligned to: the largest power of two that its size is a multiple of, up
    /// to the page of device memory.
    [[nodiscard]] std::size_t alignment() const noexcept {
        std::size_t const natural = std::size_t{1} << zeros_;
        return natural < 2_MiB ? natural : 2_MiB;
    }
    /// How many blocks the next chunk should have: as many as there are, within bounds.
    [[nodiscard]] std::size_t wanted() const noexcept {
        std::size_t const least = 64_KiB / stride_;
        std::size_t const n     = total_ > least ? total_ : least;
        return n < 1 ? 1 : (n > most() ? most() : n);
    }
    /// No chunk has more blocks.
    [[nodiscard]] std::size_t most() const noexcept {
        std::size_t const n = 2_MiB / stride_;
        return n < 8 ? 8 : n;
    }

    /// Makes room for the shelf of a stream.
    void                      reserve_slot(std::size_t slot) { shelves_.reserve(slot); }
    [[nodiscard]] std::size_t slots() const noexcept { return shelves_.size(); }

    /// The newest block of a stream's own, the newest that is kept for it, or the lowest that is
    /// clean; it is out then. Null where there is none.
    [[nodiscard]] note* take_own(std::size_t slot) noexcept {
        note* const n = shelves_.take_newest(slot);
        return n != nullptr ? hand_out(n) : nullptr;
    }
    [[nodiscard]] note* take_kept(std::size_t slot) noexcept {
        note* const n = take(shelves_.kept(slot));
        if (n != nullptr) { n->lent = true; }
        return n;
    }
    [[nodiscard]] note* take_clean() noexcept {
        chunk* const c = with_clean_;
        if (c == nullptr) { return nullptr; }
        note* const n = c->take_lowest();
        if (c->clean == 0) { unlist(*c); }
        ++out_;
        return n;
    }
    /// Takes a block that is on a shelf. Null stays null.
    note* take(note* n) noexcept {
        if (n == nullptr) { return nullptr; }
        shelves_.remove(*n);
        return hand_out(n);
    }
    /// The block that has waited longest for a stream, or null.
    [[nodiscard]] note* oldest(std::size_t slot) const noexcept { return shelves_.oldest(slot); }
    /// The one that came last.
    [[nodiscard]] note* newest(std::size_t slot) const noexcept { return shelves_.newest(slot); }

    /// The block that is out at `p`, or null.
    [[nodiscard]] note* find(void const* p) noexcept {
        chunk* const c = finder_.find_again(p);
        if (c == nullptr) { return nullptr; }
        // Exact where the offset is a multiple of the stride, by the inverse modulo 2^64 of the odd
        // part (Granlund and Montgomery, 1994, section 9); else some number.
        std::size_t const offset =
            reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(c->base);
        std::size_t const i = (offset >> zeros_) * inverse_;
        if (i >= c->notes.size()) { return nullptr; }
        note* const n = &c->notes[i];
        return n->address == p && n->at == place::out ? n : nullptr;
    }

    /// Says what lies at the address of a free that is refused. False: nothing of this heap.
    [[gnu::cold]] bool explain_refusal(refused_free& e) const noexcept {
        chunk const* const c = finder_.find(e.what.pointer);
        if (c == nullptr) { return false; }
        std::size_t const offset = reinterpret_cast<std::uintptr_t>(e.what.pointer) -
                                   reinterpret_cast<std::uintptr_t>(c->base);
        if (offset / stride_ >= c->notes.size()) { return false; } // what is left of the chunk
        note const& n = c->notes[offset / stride_];
        n.at == place::out ? e.found_live(n.address, n.asked, std::size_t{1} << n.shift)
                           : e.found_free();
        return true;
    }

    /// Takes back a block that is out: nobody uses it.
    void give_clean(note* n) noexcept {
        chunk& c = *n->home;
        --out_;
        c.make_clean(*n);
        if (c.clean == 1) { list(c); }
    }
    /// The same: the stream in `slot` may use it until it has passed `epoch`, which is no earlier
    /// than that of what it gave before.
    void give(note* n, std::size_t slot, std::uint64_t epoch) noexcept {
        --out_;
        n->home->make_wait(*n, slot, epoch);
        shelves_.add(n);
    }
    /// The same, for one that was the oldest and still is.
    void give_oldest(note* n, std::size_t slot, std::uint64_t epoch) noexcept {
        --out_;
        n->home->make_wait(*n, slot, epoch);
        shelves_.add_oldest(n);
    }
    /// The same: a graph captured on the stream uses it.
    void keep(note* n, std::size_t slot) noexcept {
        --out_;
        n->home->make_wait(*n, slot, 0, place::kept);
        n->lent = false;
        shelves_.add_kept(n);
    }
    /// The same: a graph keeps it for one stream, and the one in `slot` may use it up to `epoch`
    /// (0: nobody does). Nobody has it until captures are forgotten.
    void lay_aside(note* n, std::size_t slot, std::uint64_t epoch) noexcept {
        --out_;
        n->home->make_wait(*n, slot, epoch, place::kept);
        n->lent  = false;
        n->older = std::exchange(aside_, n);
    }

    /// Whatever waits for what `done(slot, epoch)` calls over is clean.
    template <class Done>
    void settle(Done const& done) noexcept {
        for (std::size_t slot = 0; slot < shelves_.size(); ++slot) {
            while (oldest(slot) != nullptr && done(slot, oldest(slot)->epoch)) {
                give_clean(take(oldest(slot)));
            }
        }
    }
    /// No captured graph will run again. What was kept for those of a stream waits until
    /// `epoch(slot)`, which is no earlier than that of anything given there before, and what was
    /// laid aside for who used it last.
    template <class Epoch>
    void end_captures(Epoch const& epoch) noexcept {
        for (chunk* c : chunks_) {
            for (note& n : c->notes) { n.lent = false; }
        }
        for (std::size_t slot = 0; slot < shelves_.size(); ++slot) {
            while (note* const n = shelves_.kept(slot)) {
                shelves_.remove(*n);
                n->at    = place::waiting;
                n->epoch = epoch(slot);
                shelves_.add(n);
            }
        }
        while (note* const n = aside_) {
            aside_ = n->older;
            if (n->epoch == 0) {
                give_clean(hand_out(n));
            } else {
                n->at = place::waiting;
                shelves_.add_in_order(n);
            }
        }
    }

    /// Adds a chunk of whole blocks, clean, or on the shelf of a stream (`held_by` not null).
    struct holder {
        std::size_t   slot;
        std::uint64_t epoch;
    };
    void add(void* base, std::size_t bytes, holder const* held_by) {
        if (held_by != nullptr) { reserve_slot(held_by->slot); }
        chunks_.reserve(chunks_.size() + 1);
        finder_.reserve();
        auto* const fresh = new chunk{base, bytes, stride_}; // nothing fails from here on
        fresh->position   = chunks_.size();
        chunks_.push(fresh);
        finder_.add(*fresh);
        out_ += fresh->out;
        total_ += fresh->out;
        for (std::size_t i = fresh->notes.size(); i-- != 0;) { // the lowest last: it is taken first
            if (held_by != nullptr) {
                give(&fresh->notes[i], held_by->slot, held_by->epoch);
            } else {
                give_clean(&fresh->notes[i]);
            }
        }
    }
    /// Takes out a chunk of which every block is clean.
    void remove(chunk* c) noexcept {
        unlist(*c);
        finder_.remove(*c);
        chunk* const last    = chunks_[chunks_.size() - 1];
        last->position       = c->position;
        chunks_[c->position] = last;
        chunks_.pop();
        total_ -= c->notes.size();
        delete c;
    }

    [[nodiscard]] bool owns(void const* p) const noexcept { return finder_.find(p) != nullptr; }
    [[nodiscard]] heap_array<chunk*> const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t               blocks_out() const noexcept { return out_; }
    [[nodiscard]] std::size_t               blocks_free() const noexcept { return total_ - out_; }

private:
    note* hand_out(note* n) noexcept {
        ++out_;
        return n->home->hand_out(*n);
    }
    /// The chunk has clean blocks now, or none any more.
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

    std::size_t         stride_;
    int                 zeros_;       ///< powers of two in the stride
    std::uint64_t       inverse_ = 0; ///< of the odd part of the stride
    chunk_finder<chunk> finder_;
    heap_array<chunk*>  chunks_;
    slab_shelves        shelves_;
    chunk*              with_clean_ = nullptr;
    note*               aside_      = nullptr; ///< the first of what was laid aside
    std::size_t         total_      = 0;
    std::size_t         out_        = 0;
};

} // namespace vram
