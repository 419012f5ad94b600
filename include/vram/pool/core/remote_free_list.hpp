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

/// A queue of at most `most` frees: threads of other shards (pools of an arena) add frees of this
/// shard's blocks. The queue has its own lock, so that these threads do not disturb the shard
/// (remote lists: mimalloc, 2019).
///
/// Failure   `push` returns false if the queue is full or host memory is lacking.
/// Threads   Any number of threads may call concurrently, but only one at a time calls `drain`.
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

    /// Adds the free of a block by a thread of another shard (pool of the arena) to the queue.
    /// Returns false if the queue is full or host memory is lacking.
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
    /// Removes the oldest queued free of the block at `p`, and copies it to `out`. Returns false if
    /// there is none.
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
    /// lock released.
    template <class Take>
    void drain(Take const& take) noexcept {
        remote_free some[batch];
        // Keeps the handles of the frees' streams valid until all frees were processed.
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

    /// Keeps the handle of the stream `s` valid until the queued frees on `s` were processed.
    /// Otherwise a new stream could get the same handle. Does nothing if the platform does not
    /// announce when `s` is destroyed.
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
    /// Counted references to the streams of queued frees: they keep the streams' handles valid.
    heap_array<hold> holds_;
    /// The stream of the last element of `holds_`. `keep` adds no second element for this stream.
    /// Not used if `holds_` is empty.
    stream      newest_{};
    std::size_t first_ = 0;
    std::size_t count_ = 0;

    /// True if the queue may contain frees. On its own cache line, because the shard's threads poll
    /// it while other threads write the members above.
    alignas(64) std::atomic<bool> maybe_any_ = false;
};

} // namespace detail
} // namespace vram
