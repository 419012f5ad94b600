// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `returned_blocks` are what others have given back to a pool, until it takes them in.

#include <vram/base/call_site.hpp>       // call_site
#include <vram/concepts/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/pool/hash_cells.hpp>      // scramble
#include <vram/pool/heap_array.hpp>      // heap_array
#include <vram/pool/platform_lock.hpp>   // platform_lock

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdint> // uint64_t, uintptr_t
#include <new>     // bad_alloc
#include <utility> // move

namespace vram {

/// A short list with a lock of its own, so that who gives a block back to another's pool does not
/// disturb its owner, who has the pool's lock for itself. (The idea is that of the remote lists of
/// Leijen, Zorn and de Moura, mimalloc, 2019; these are beside the memory, which no host may touch,
/// and so have an end.)
///
/// Failure   `leave` says no where there is no room, or no host memory for any
/// Threads   any, at once
/// Cost      `leave` and each of those taken out some twenty instructions, and the lock; the first
///           one that is left also host memory for `most` of them
template <class Platform>
class returned_blocks {
public:
    using stream = typename Platform::stream;
    using hold   = stream_hold<Platform>;

    static constexpr std::size_t most = 256;

    struct note {
        void*       p         = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
        call_site   at        = {};    ///< that freed it
        bool        in_use    = false; ///< by a stream, this one
        stream      on        = {};

        std::uint64_t number = 0; ///< how many were left before
    };

    /// Leaves a block here, of a stream that the calling thread uses. False: there is no room.
    [[nodiscard]] bool leave(note const& n) noexcept {
        auto const held = lock_.hold();
        if (count_ == most) { return false; }
        try {
            notes_.reserve(most);
            if (n.in_use) { keep(n.on); }
        } catch (std::bad_alloc const&) { return false; }
        while (notes_.size() < most) { notes_.push(); }
        std::uint64_t const before = left_.load(std::memory_order_relaxed);
        note&               mine   = notes_[(first_ + count_++) % most];
        mine                       = n;
        mine.number                = before;
        mark const its{n.p};
        auto&      marks = marks_[its.word];
        marks.store(marks.load(std::memory_order_relaxed) | its.bit, std::memory_order_relaxed);
        left_.store(before + 1, std::memory_order_relaxed);
        some_.store(true, std::memory_order_relaxed);
        return true;
    }
    /// Whether there may be any. Cost: a load.
    [[nodiscard]] bool any() const noexcept { return some_.load(std::memory_order_relaxed); }
    /// Whether the block at `p` may be here: not always no where it is not, and never where it is.
    /// Cost: a load.
    [[nodiscard]] bool may_have(void const* p) const noexcept {
        mark const its{p};
        return (marks_[its.word].load(std::memory_order_relaxed) & its.bit) != 0;
    }
    /// How many have been left, ever. Who is handed a block after one was left reads more than that
    /// one's number; who leaves a block has a number no less than what was read when it was handed
    /// out.
    [[nodiscard]] std::atomic<std::uint64_t> const& left() const noexcept { return left_; }
    /// Calls `take(note)` with each, the first one first: who gave a block back before
    /// somebody else did once more is believed. Without the lock, and keeps none.
    template <class Take>
    void collect(Take const& take) noexcept {
        note             some[batch];
        heap_array<hold> held; // until the last note is taken in
        std::size_t      count = 0;
        do {
            count = take_out(some, held);
            for (std::size_t i = 0; i < count; ++i) { take(some[i]); }
        } while (count == batch);
    }

private:
    static constexpr std::size_t batch = 32; ///< taken out with the lock held once
    static constexpr std::size_t words = 4;  ///< of marks, on the line of `some_`

    /// Where a block is marked (Bloom, Space/time trade-offs in hash coding, 1970, with one hash).
    struct mark {
        std::size_t   word;
        std::uint64_t bit;

        explicit mark(void const* p) noexcept {
            std::uint64_t const key = scramble(reinterpret_cast<std::uintptr_t>(p)) >> 56;
            word                    = key / 64;
            bit                     = std::uint64_t{1} << key % 64;
        }
    };
    static_assert(words * 64 == 256); // a mark for each of the keys

    /// The handle of a stream stays its own until what it left is taken in.
    void keep(stream s) {
        if constexpr (announces_ends<Platform>) {
            if (holds_.size() != 0 && newest_ == s) { return; }
            auto held = hold_stream<Platform>(s);
            if (!held) { return; }
            if (holds_.size() == most) { throw std::bad_alloc{}; }
            holds_.push(std::move(held));
            newest_ = s;
        }
    }
    std::size_t take_out(note (&to)[batch], heap_array<hold>& kept) noexcept {
        auto const  held  = lock_.hold();
        std::size_t count = 0;
        for (; count != batch && count_ != 0; --count_) {
            to[count++] = notes_[first_];
            first_      = (first_ + 1) % most;
        }
        if (count_ == 0) {
            if (holds_.size() != 0) { kept = std::move(holds_); }
            some_.store(false, std::memory_order_relaxed);
            for (auto& marks : marks_) { marks.store(0, std::memory_order_relaxed); }
        }
        return count;
    }

    platform_lock<Platform> lock_;
    heap_array<note>        notes_;    ///< a ring
    heap_array<hold>        holds_;    ///< of the streams that left them
    stream                  newest_{}; ///< of those, the last one's
    std::size_t             first_ = 0;
    std::size_t             count_ = 0;

    // Together, where others write to all of them and the owner reads them.
    alignas(64) std::atomic<bool> some_      = false;
    std::atomic<std::uint64_t> left_         = 0;
    std::atomic<std::uint64_t> marks_[words] = {};
};

} // namespace vram
