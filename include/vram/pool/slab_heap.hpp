// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slab_heap` cuts chunks into blocks of one size: the heart of `slab` and `binned`, without
/// streams.

#include <vram/base/align.hpp>       // align
#include <vram/base/bytes.hpp>       // literals
#include <vram/pool/address_map.hpp> // address_map
#include <vram/pool/heap_array.hpp>  // heap_array

#include <bit>     // countr_zero, bit_width
#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t, uint32_t
#include <utility> // move, exchange

namespace vram {

/// Every block has a note. Free blocks that nobody uses any more are bits in a map, the lowest
/// taken first, so that chunks at the end of the row run empty. Those that a stream may still use
/// are in a list of that stream, by age: the stream itself takes the newest, others the oldest.
///
/// Failure   `std::bad_alloc` from `reserve_slot` and `add`, with nothing changed; nothing else
///           fails
/// Threads   one at a time
/// Cost      constant at any number of blocks
class slab_heap {
public:
    static constexpr std::size_t granule = 256; ///< every block is a multiple of it
    static constexpr std::size_t largest = std::size_t{1} << 56;

    struct chunk;

    /// Where a block is.
    enum class place : unsigned char {
        clean,   ///< free, for anybody
        waiting, ///< free, a stream may still use it
        kept,    ///< free, a captured graph uses it
        out      ///< handed out
    };
    struct note {
        note*  older   = nullptr; ///< in the list of its stream
        note*  newer   = nullptr;
        void*  address = nullptr;
        chunk* home    = nullptr;
        union {
            std::uint64_t epoch = 0; ///< while it waits: until when
            std::size_t   asked;     ///< while it is out: how much was asked for
        };
        std::uint32_t slot  = 0; ///< while it waits: for whom
        unsigned char shift = 0; ///< while it is out: the alignment asked for, as a power of two
        place         at    = place::clean;
    };

    /// Memory of the upstream, whole blocks of it.
    struct chunk {
        void*                     base       = nullptr;
        std::size_t               bytes      = 0;
        std::size_t               out        = 0; ///< blocks handed out
        std::size_t               clean      = 0;
        std::size_t               first_word = 0; ///< the words of the map before it are empty
        std::size_t               position   = 0; ///< among the chunks
        chunk*                    beside     = nullptr; ///< begins in the same stretch of addresses
        chunk*                    next       = nullptr; ///< among those with clean blocks
        chunk*                    previous   = nullptr;
        heap_array<note>          notes;
        heap_array<std::uint64_t> map; ///< a bit for every clean block

        /// Blocks that wait or are kept.
        [[nodiscard]] std::size_t waiting() const noexcept { return notes.size() - out - clean; }
    };

    explicit slab_heap(std::size_t block_bytes) noexcept
        : stride_{align(block_bytes, granule)}, zeros_{std::countr_zero(stride_)} {
        std::uint64_t const odd = stride_ >> zeros_;
        inverse_                = odd; // right in three bits, and in twice as many each time
        for (int i = 0; i < 5; ++i) { inverse_ *= 2 - odd * inverse_; }
        stretch_ = static_cast<int>(std::bit_width(most() * stride_ - 1));
    }
    slab_heap(slab_heap&& other) noexcept
        : stride_{other.stride_},
          zeros_{other.zeros_},
          stretch_{other.stretch_},
          inverse_{other.inverse_} {
        swap_contents(other);
    }
    slab_heap& operator=(slab_heap&& other) noexcept {
        if (this == &other) { return *this; }
        slab_heap fresh{std::move(other)};
        stride_  = fresh.stride_;
        zeros_   = fresh.zeros_;
        stretch_ = fresh.stretch_;
        inverse_ = fresh.inverse_;
        swap_contents(fresh);
        return *this;
    }
    ~slab_heap() {
        for (chunk* each : chunks_) { delete each; }
    }

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

    /// Makes room for the list of a stream.
    void reserve_slot(std::size_t slot) {
        if (slot < shelves_.size()) { return; }
        shelves_.reserve(slot + 1);
        while (shelves_.size() <= slot) { shelves_.push(shelf{}); }
    }
    [[nodiscard]] std::size_t slots() const noexcept { return shelves_.size(); }

    /// The newest block of a stream's own, the newest that is kept for it, or the lowest that is
    /// clean; it is out then. Null where there is none.
    [[nodiscard]] note* take_own(std::size_t slot) noexcept {
        if (slot >= shelves_.size() || shelves_[slot].newest == nullptr) { return nullptr; }
        shelf&      s = shelves_[slot];
        note* const n = std::exchange(s.newest, s.newest->older);
        (n->older != nullptr ? n->older->newer : s.oldest) = nullptr;
        return hand_out(n);
    }
    [[nodiscard]] note* take_kept(std::size_t slot) noexcept {
        return slot < shelves_.size() ? take(shelves_[slot].kept) : nullptr;
    }
    [[nodiscard]] note* take_clean() noexcept {
        chunk* const c = with_clean_;
        if (c == nullptr) { return nullptr; }
        while (c->map[c->first_word] == 0) { ++c->first_word; }
        std::uint64_t&    word = c->map[c->first_word];
        std::size_t const i = 64 * c->first_word + static_cast<std::size_t>(std::countr_zero(word));
        word &= word - 1;
        if (--c->clean == 0) { unlist(*c); }
        return hand_out(&c->notes[i]);
    }
    /// Takes a block that is somewhere in a list. Null stays null.
    note* take(note* n) noexcept {
        if (n == nullptr) { return nullptr; }
        unlink(*n);
        return hand_out(n);
    }
    /// The block that has waited longest for a stream, or null.
    [[nodiscard]] note* oldest(std::size_t slot) const noexcept { return shelves_[slot].oldest; }

    /// The block that is out at `p`, or null.
    [[nodiscard]] note* find(void const* p) noexcept {
        chunk* const c = chunk_of(p);
        if (c == nullptr) { return nullptr; }
        recent_ = c;
        // Exact where the offset is a multiple of the stride, by the inverse modulo 2^64 of the odd
        // part (Granlund and Montgomery, 1994, section 9); else some number.
        std::size_t const i = (offset(*c, p) >> zeros_) * inverse_;
        if (i >= c->notes.size()) { return nullptr; }
        note* const n = &c->notes[i];
        return n->address == p && n->at == place::out ? n : nullptr;
    }

    /// Takes back a block that is out: nobody uses it.
    void give_clean(note* n) noexcept {
        chunk& c = *n->home;
        --c.out;
        --out_;
        make_clean(*n);
    }
    /// The same: the stream in `slot` may use it until it has passed `epoch`, which is no earlier
    /// than that of what it gave before.
    void give(note* n, std::size_t slot, std::uint64_t epoch) noexcept {
        shelf& s = shelves_[slot];
        wait_in(*n, slot, epoch);
        n->older                                           = std::exchange(s.newest, n);
        n->newer                                           = nullptr;
        (n->older != nullptr ? n->older->newer : s.oldest) = n;
    }
    /// The same, for one that was the oldest and still is.
    void give_oldest(note* n, std::size_t slot, std::uint64_t epoch) noexcept {
        shelf& s = shelves_[slot];
        wait_in(*n, slot, epoch);
        n->newer                                           = std::exchange(s.oldest, n);
        n->older                                           = nullptr;
        (n->newer != nullptr ? n->newer->older : s.newest) = n;
    }
    /// The same: a graph captured on the stream uses it.
    void keep(note* n, std::size_t slot) noexcept {
        wait_in(*n, slot, 0);
        n->at    = place::kept;
        n->older = std::exchange(shelves_[slot].kept, n);
        n->newer = nullptr;
        if (n->older != nullptr) { n->older->newer = n; }
    }

    /// Whatever waits for what `done(slot, epoch)` calls over is clean.
    template <class Done>
    void settle(Done const& done) noexcept {
        for (std::size_t slot = 0; slot < shelves_.size(); ++slot) {
            while (shelves_[slot].oldest != nullptr && done(slot, shelves_[slot].oldest->epoch)) {
                give_clean(take(shelves_[slot].oldest));
            }
        }
    }
    /// No captured graph will run again.
    void forget_captures() noexcept {
        for (shelf& s : shelves_) {
            while (s.kept != nullptr) { give_clean(take(s.kept)); }
        }
    }

    /// Adds a chunk of whole blocks, clean, or in the list of a stream (`held_by` not null).
    struct holder {
        std::size_t   slot;
        std::uint64_t epoch;
    };
    void add(void* base, std::size_t bytes, holder const* held_by) {
        std::size_t const count = bytes / stride_;
        if (held_by != nullptr) { reserve_slot(held_by->slot); }
        chunks_.reserve(chunks_.size() + 1);
        by_stretch_.reserve(1);
        auto* const fresh = new chunk;
        struct undo {
            chunk* unless_null;
            ~undo() { delete unless_null; }
        } guard{fresh};
        fresh->notes.reserve(count);
        fresh->map.reserve((count + 63) / 64);
        guard.unless_null = nullptr; // nothing fails from here on
        fresh->base       = base;
        fresh->bytes      = bytes;
        fresh->position   = chunks_.size();
        chunks_.push(fresh);
        enter(*fresh);
        for (std::size_t i = 0; i < count; i += 64) { fresh->map.push(std::uint64_t{0}); }
        for (std::size_t i = 0; i < count; ++i) {
            note& n   = fresh->notes.push();
            n.address = static_cast<std::byte*>(base) + i * stride_;
            n.home    = fresh;
            n.at      = place::out;
        }
        fresh->out = count;
        out_ += count;
        total_ += count;
        for (std::size_t i = count; i-- != 0;) { // the lowest last: it is taken first
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
        leave(*c);
        chunk* const last    = chunks_[chunks_.size() - 1];
        last->position       = c->position;
        chunks_[c->position] = last;
        chunks_.pop();
        total_ -= c->notes.size();
        if (recent_ == c) { recent_ = nullptr; }
        delete c;
    }

    [[nodiscard]] bool owns(void const* p) const noexcept { return chunk_of(p) != nullptr; }
    [[nodiscard]] heap_array<chunk*> const& chunks() const noexcept { return chunks_; }
    [[nodiscard]] std::size_t               blocks_out() const noexcept { return out_; }
    [[nodiscard]] std::size_t               blocks_free() const noexcept { return total_ - out_; }

private:
    /// What a stream gave back and may still use.
    struct shelf {
        note* newest = nullptr;
        note* oldest = nullptr;
        note* kept   = nullptr;
    };

    [[nodiscard]] static std::size_t offset(chunk const& c, void const* p) noexcept {
        return reinterpret_cast<std::uintptr_t>(p) - reinterpret_cast<std::uintptr_t>(c.base);
    }
    /// The chunk around `p`. A chunk is no longer than a stretch, so it begins in that of `p` or in
    /// the one before.
    [[nodiscard]] chunk* chunk_of(void const* p) const noexcept {
        if (recent_ != nullptr && offset(*recent_, p) < recent_->bytes) { return recent_; }
        std::uint64_t const here = reinterpret_cast<std::uintptr_t>(p) >> stretch_;
        for (std::uint64_t const k : {here, here - 1}) {
            for (chunk* c = by_stretch_.find(k); c != nullptr; c = c->beside) {
                if (offset(*c, p) < c->bytes) { return c; }
            }
        }
        return nullptr;
    }
    [[nodiscard]] std::uint64_t stretch_of(chunk const& c) const noexcept {
        return reinterpret_cast<std::uintptr_t>(c.base) >> stretch_;
    }
    void enter(chunk& c) noexcept {
        std::uint64_t const k = stretch_of(c);
        c.beside              = by_stretch_.find(k);
        if (c.beside != nullptr) { by_stretch_.erase(k); }
        by_stretch_.insert(k, &c);
    }
    void leave(chunk& c) noexcept {
        std::uint64_t const k     = stretch_of(c);
        chunk*              first = by_stretch_.find(k);
        by_stretch_.erase(k);
        chunk** link = &first;
        while (*link != &c) { link = &(*link)->beside; }
        *link = c.beside;
        if (first != nullptr) { by_stretch_.insert(k, first); }
    }

    note* hand_out(note* n) noexcept {
        n->at = place::out;
        ++n->home->out;
        ++out_;
        return n;
    }
    void wait_in(note& n, std::size_t slot, std::uint64_t epoch) noexcept {
        --n.home->out;
        --out_;
        n.slot  = static_cast<std::uint32_t>(slot);
        n.epoch = epoch;
        n.at    = place::waiting;
    }
    void unlink(note& n) noexcept {
        shelf& s                                     = shelves_[n.slot];
        note*& head                                  = n.at == place::kept ? s.kept : s.newest;
        (n.newer != nullptr ? n.newer->older : head) = n.older;
        if (n.older != nullptr) {
            n.older->newer = n.newer;
        } else if (n.at == place::waiting) {
            s.oldest = n.newer;
        }
    }
    void make_clean(note& n) noexcept {
        chunk&            c = *n.home;
        std::size_t const i = static_cast<std::size_t>(&n - c.notes.begin());
        c.map[i / 64] |= std::uint64_t{1} << (i % 64);
        if (i / 64 < c.first_word) { c.first_word = i / 64; }
        n.at = place::clean;
        if (c.clean++ != 0) { return; }
        c.next     = std::exchange(with_clean_, &c);
        c.previous = nullptr;
        if (c.next != nullptr) { c.next->previous = &c; }
    }
    void unlist(chunk& c) noexcept {
        (c.previous != nullptr ? c.previous->next : with_clean_) = c.next;
        if (c.next != nullptr) { c.next->previous = c.previous; }
    }
    void swap_contents(slab_heap& other) noexcept {
        std::swap(chunks_, other.chunks_);
        std::swap(shelves_, other.shelves_);
        std::swap(by_stretch_, other.by_stretch_);
        with_clean_ = std::exchange(other.with_clean_, with_clean_);
        recent_     = std::exchange(other.recent_, recent_);
        total_      = std::exchange(other.total_, total_);
        out_        = std::exchange(other.out_, out_);
    }

    std::size_t        stride_;
    int                zeros_;       ///< powers of two in the stride
    int                stretch_ = 0; ///< addresses are told apart by the bits from here on
    std::uint64_t      inverse_ = 0; ///< of the odd part of the stride
    heap_array<chunk*> chunks_;
    heap_array<shelf>  shelves_; ///< by slot
    address_map<chunk> by_stretch_;
    chunk*             with_clean_ = nullptr;
    chunk*             recent_     = nullptr; ///< where a block came back last
    std::size_t        total_      = 0;
    std::size_t        out_        = 0;
};

} // namespace vram
