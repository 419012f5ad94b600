// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `count_shards` divides the counters of `statistics` among threads.

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/smaller_of.hpp> // smaller_of, larger_of
#include <vram/base/core/thread_shards.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>
#include <new>      // nothrow
#include <optional> // optional
#include <utility>

namespace vram {
namespace detail {

/// The bytes (or blocks) that one thread has allocated and freed since its counts were last moved
/// to the counters of the layer. `room` is the number of bytes (or blocks) that the thread may
/// still allocate before it must take the locks of all threads, so that no peak is missed.
struct shared_count {
    std::ptrdiff_t change = 0; ///< allocated minus freed since the last move
    /// Bytes or blocks allocated since the last move to the counters of the layer, without frees.
    std::uint64_t total = 0;
    std::size_t   room  = 0;
    /// Additional room (bytes or blocks) that this thread got although the value may then exceed
    /// the counted peak, which may so be too low by this number. 0 while the peak is exact.
    std::size_t excess = 0;

    void add(std::size_t n) noexcept {
        change += static_cast<std::ptrdiff_t>(n);
        total += n;
        room -= n;
    }
    void sub(std::size_t n) noexcept {
        change -= static_cast<std::ptrdiff_t>(n);
        room += n;
    }
};

/// Lets several threads count allocations and frees without a common lock. Each thread counts in
/// its own *shard* (if there are more than 32 threads, some share one). `fold` moves the counts of
/// all shards to `sums`, the counters of the layer.
///
/// So that the peak in `sums` is exact, each thread has *room*: the bytes and blocks that it may
/// allocate without the locks of other threads. All rooms together are at most the peak minus the
/// value. A free enlarges the room of its thread. For an allocation that exceeds the room, `add`
/// moves the counts of all shards to `sums`, and gives the thread new room.
///
/// If the value stays near the peak, threads call `add` again and again. So after `exact_calls`
/// calls of `add` since a scope last began or ended, each thread that calls `add` gets additional
/// room, its *excess* (`slack`). Calls of `add` by a thread that counts alone are left out. A peak
/// may then be too low, at most by the excesses of all threads. It is never too high. Values and
/// totals are always exact.
///
/// Threads   Any thread may call `try_add`, `sub` and `refuse`. One thread at a time may call `add`
///           and `fold`: the owner has a lock for it.
/// Cost      The `biased_lock` of a shard. `add` and `fold` take the locks of all shards in use.
class count_shards {
public:
    /// Peaks are exact for this many calls of `add`, of all threads together, since a scope last
    /// began or ended. After that, each thread that calls `add` may allocate `slack` unnoticed.
    static constexpr unsigned exact_calls = 256;
    /// Returns by how many bytes or blocks one thread may make the counted peak too low: 1/128 of
    /// `peak`, but at least `least`.
    [[nodiscard]] static constexpr std::size_t slack(std::size_t    least,
                                                     std::ptrdiff_t peak) noexcept {
        return larger_of(least, static_cast<std::size_t>(peak) / 128);
    }
    static constexpr std::size_t least_bytes  = std::size_t{1} << 20;
    static constexpr std::size_t least_blocks = 64;

    /// Counts an allocation in the shard (counters) of the calling thread, and returns true. If the
    /// room of the thread is too small (see `shared_count`), counts nothing and returns false.
    [[nodiscard]] bool try_add(std::size_t bytes) noexcept {
        shard&     s    = mine();
        auto const held = s.lock.hold();
        if (bytes > s.bytes.room || s.blocks.room == 0) { return false; }
        s.bytes.add(bytes);
        s.blocks.add(1);
        return true;
    }
    /// Counts a free in the shard (counters) of the calling thread.
    void sub(std::size_t bytes) noexcept {
        shard&     s    = mine();
        auto const held = s.lock.hold();
        s.bytes.sub(bytes);
        s.blocks.sub(1);
    }
    /// Counts a refused request in the shard (counters) of the calling thread.
    void refuse() noexcept {
        shard&     s    = mine();
        auto const held = s.lock.hold();
        ++s.refusals;
    }

    /// Moves the counts of all threads to `sums`, the counters of the layer, and sets the room of
    /// each thread to 0, so that its next allocation calls `add`. `anew`: a scope (`push`, `pop`)
    /// begins or ends, so peaks are exact again for `exact_calls` calls of `add`.
    template <class Counters>
    void fold(Counters& sums, bool anew) noexcept {
        all_held const held{shards_};
        gather(sums, held);
        for_each(held, [&](shard& each) {
            each.bytes.room = each.bytes.excess = 0;
            each.blocks.room = each.blocks.excess = 0;
            if (anew) { each.counted = false; }
        });
        if (anew) { calls_ = 0; }
    }
    /// Counts an allocation that exceeds the room of the calling thread: moves the counts of all
    /// threads to `sums`, the counters of the layer, and adds the allocation there. The thread gets
    /// the room that no thread has, and takes room of other threads if that is not enough.
    template <class Counters>
    void add(Counters& sums, std::size_t bytes) noexcept {
        shard&         s = mine();
        all_held const held{shards_};
        gather(sums, held);
        s.counted = true;
        if (others_counted(s, held) && ++calls_ > exact_calls) {
            s.bytes.excess  = slack(least_bytes, sums.bytes.peak);
            s.blocks.excess = slack(least_blocks, sums.blocks.peak);
        }
        take(sums.bytes, s, &shard::bytes, bytes, held);
        take(sums.blocks, s, &shard::blocks, 1, held);
    }

private:
    struct alignas(64) shard {
        biased_lock   lock;
        shared_count  bytes;
        shared_count  blocks;
        std::uint64_t refusals = 0;
        /// True if a thread of this shard has allocated or freed since a scope last began or ended.
        bool counted = false;
    };

    using shards = thread_shards<shard>;

    /// Locks all shards (each has the counters of one thread) that are in use, and unlocks them in
    /// the destructor.
    class all_held {
    public:
        explicit all_held(shards& all) noexcept : used_{all.used()} {
            std::size_t n = 0;
            all.for_each(used_, [&](shard& each) { held_[n++].emplace(each.lock); });
        }
        /// Returns the set of the shards whose locks this object holds.
        [[nodiscard]] shards::set used() const noexcept { return used_; }

    private:
        shards::set                       used_;
        std::optional<biased_lock::guard> held_[shards::count];
    };

    /// Returns the shard (counters) in which the calling thread counts. The first call of a thread
    /// takes the shard into use: the thread locks it before `fold` and `add` of other threads can,
    /// to own the bias (it then locks by plain stores).
    [[nodiscard, gnu::always_inline]] shard& mine() noexcept {
        return shards_.mine([](shard& first) { return first.lock.hold(); });
    }
    /// Calls `visit(shard)` for each shard (counters of a thread) whose lock `held` holds.
    template <class Visit>
    void for_each(all_held const& held, Visit const& visit) noexcept {
        shards_.for_each(held.used(), visit);
    }
    template <class Counter>
    static void gather(Counter& sum, shared_count& each) noexcept {
        sum.value += std::exchange(each.change, 0);
        sum.total += std::exchange(each.total, 0U);
    }
    template <class Counters>
    void gather(Counters& sums, all_held const& held) noexcept {
        for_each(held, [&](shard& each) {
            each.counted = each.counted || each.blocks.total != 0 || each.blocks.change != 0;
            gather(sums.bytes, each.bytes);
            gather(sums.blocks, each.blocks);
            sums.refusals += std::exchange(each.refusals, 0U);
        });
        sums.bytes.peak  = larger_of(sums.bytes.peak, sums.bytes.value);
        sums.blocks.peak = larger_of(sums.blocks.peak, sums.blocks.value);
    }
    /// Returns true if a shard other than `s` (so another thread) has counted an allocation or a
    /// free since a scope last began or ended.
    [[nodiscard]] bool others_counted(shard const& s, all_held const& held) noexcept {
        bool found = false;
        for_each(held, [&](shard const& each) { found = found || (&each != &s && each.counted); });
        return found;
    }
    template <class Counter>
    void take(Counter& sum, shard& s, shared_count shard::* which, std::size_t n,
              all_held const& held) noexcept {
        // The room that no thread has: peak minus value, plus all excesses, minus all rooms. It is
        // not negative: rooms grow only by frees, which lower the value, and by this distribution.
        auto spare = static_cast<std::size_t>(sum.peak - sum.value);
        for_each(held, [&](shard& each) { spare += (each.*which).excess - (each.*which).room; });
        std::size_t& room = (s.*which).room;
        room += spare;
        for_each(held, [&](shard& each) {
            if (&each == &s || room >= n) { return; }
            std::size_t&      other = (each.*which).room;
            std::size_t const part  = smaller_of(other, larger_of(n - room, other / 2));
            other -= part;
            room += part;
        });
        // If the thread has less room than `n`, all other rooms are 0 by now. Then `sum.add` counts
        // a new peak.
        room -= smaller_of(room, n);
        sum.add(n);
    }

    shards shards_;
    /// Number of calls of `add` since a scope (`push`, `pop`) last began or ended. Calls before
    /// another thread has counted in that time are not included. Compared with `exact_calls`.
    std::uint64_t calls_ = 0;
};

/// Owns the `count_shards` (counters for each thread) of a `statistics` layer. `make` creates them,
/// usually when a second thread uses the layer; before that, `get` returns null.
///
/// Threads   Any thread may call `get`, and one thread at a time `make`. Move the object only if no
///           other thread uses it.
class late_count_shards {
public:
    late_count_shards() = default;
    late_count_shards(late_count_shards&& other) noexcept : made_{other.made_.exchange(nullptr)} {}
    late_count_shards& operator=(late_count_shards&& other) noexcept {
        delete made_.exchange(other.made_.exchange(nullptr));
        return *this;
    }
    ~late_count_shards() { delete made_.load(std::memory_order_relaxed); }

    /// Returns the counters for each thread, or null if `make` has not created them.
    [[nodiscard]] count_shards* get() const noexcept {
        return made_.load(std::memory_order_acquire);
    }
    /// Returns the counters for each thread, and creates them if there are none. Returns null if
    /// there is no host memory for them. One thread at a time may call.
    [[nodiscard]] count_shards* make() noexcept {
        if (get() == nullptr) {
            made_.store(new (std::nothrow) count_shards, std::memory_order_release);
        }
        return get();
    }

private:
    std::atomic<count_shards*> made_{nullptr};
};

} // namespace detail
} // namespace vram
