// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `remote_free_list` is the remote free list of a shard: blocks that other threads freed and the
/// shard has not drained yet.

#include <vram/base/call_site.hpp>
#include <vram/base/core/heap_array.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream

#include <atomic> // atomic
#include <cstddef>
#include <new> // bad_alloc
#include <utility>

namespace vram {
namespace detail {

/// A bounded queue of remote frees: a thread that uses another shard (pool of the arena) has freed
/// a block of this shard. The queue has its own lock, so that such a thread does not disturb the
/// thread that holds the shard's lock. (The idea of remote lists is that of Leijen, Zorn and de
/// Moura, mimalloc, 2019. These lists lie outside the managed memory, which the host may not be
/// able to access, and are therefore bounded.)
///
/// Failure   `push` returns false if the queue is full, or if host memory cannot be allocated.
/// Threads   Any number of threads may call concurrently.
/// Cost      `push`, and each block that is drained, cost some twenty instructions and the lock.
///           The first `push` also allocates host memory for `most` frees.
template <class Platform>
class remote_free_list {
public:
    using stream = typename Platform::stream;
    using hold   = stream_hold<Platform>;

    static constexpr std::size_t most = 256;

    struct remote_free {
        void*       p         = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
        call_site   at        = {};    ///< the line of the caller that freed the block
        bool        in_use    = false; ///< true if the stream of this free may still use the block
        stream      on        = {};
    };

    /// Queues the free of a block of this shard (one pool of an arena) by a thread of another
    /// shard. If `n.in_use`, the stream `n.on` may still use the block. Returns false if there is
    /// no room, or no host memory.
    [[nodiscard]] bool push(remote_free const& n) noexcept {
        auto const held = lock_.hold();
        if (count_ == most) { return false; }
        try {
            queue_.reserve(most);
            if (n.in_use) { keep(n.on); }
        } catch (std::bad_alloc const&) { return false; }
        while (queue_.size() < most) { queue_.push(); }
        queue_[(first_ + count_++) % most] = n;
        maybe_any_.store(true, std::memory_order_relaxed);
        return true;
    }
    /// Returns true if the queue may contain frees. Cost: one load.
    [[nodiscard]] bool any() const noexcept { return maybe_any_.load(std::memory_order_relaxed); }
    /// Removes from the queue the oldest free of the block at `p`, and copies it to `out`. There
    /// may be several, if the program has freed the block twice. Returns false if there is none.
    /// Cost: the lock, and a walk over the queue.
    [[nodiscard]] bool remove(void const* p, remote_free& out) noexcept {
        auto const held = lock_.hold();
        for (std::size_t i = 0; i != count_; ++i) {
            if (queue_[(first_ + i) % most].p != p) { continue; }
            out = queue_[(first_ + i) % most];
            for (; i + 1 != count_; ++i) {
                queue_[(first_ + i) % most] = queue_[(first_ + i + 1) % most];
            }
            --count_;
            return true;
        }
        return false;
    }
    /// Removes all queued frees, oldest first, and calls `take(free)` for each, with the queue's
    /// lock released. The order matters: of two frees of one block, the second is a double free.
    template <class Take>
    void drain(Take const& take) noexcept {
        remote_free some[batch];
        // The holds of the streams of all queued frees: they keep the handles of the streams valid
        // until the last of the frees was processed.
        heap_array<hold> held;
        std::size_t      count = 0;
        do {
            count = take_out(some, held);
            for (std::size_t i = 0; i < count; ++i) { take(some[i]); }
        } while (count == batch);
    }

private:
    /// Number of frees that `drain` removes each time it takes the lock.
    static constexpr std::size_t batch = 32;

    /// Takes a hold of the stream `s` (a reference that keeps its handle valid after the owner has
    /// destroyed the stream) until the queued frees on `s` were executed, so that no new stream
    /// gets this handle before. Does nothing if the platform does not announce the end of `s`.
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
    std::size_t take_out(remote_free (&to)[batch], heap_array<hold>& kept) noexcept {
        auto const  held  = lock_.hold();
        std::size_t count = 0;
        for (; count != batch && count_ != 0; --count_) {
            to[count++] = queue_[first_];
            first_      = (first_ + 1) % most;
        }
        if (count_ == 0) {
            if (holds_.size() != 0) { kept = std::move(holds_); }
            maybe_any_.store(false, std::memory_order_relaxed);
        }
        return count;
    }

    platform_lock<Platform> lock_;
    heap_array<remote_free> queue_; ///< the queued frees, as a ring buffer
    /// For each stream of a queued free, a hold: a reference that keeps the handle valid after the
    /// owner has destroyed the stream.
    heap_array<hold> holds_;
    /// The stream whose hold (a share that keeps its handle valid) was stored last: while `holds_`
    /// has elements, further frees on that stream need no hold.
    stream      newest_{};
    std::size_t first_ = 0;
    std::size_t count_ = 0;

    /// True if the queue may contain frees. It has a cache line for itself, because other threads
    /// write it and the owner reads it.
    alignas(64) std::atomic<bool> maybe_any_ = false;
};

} // namespace detail
} // namespace vram
