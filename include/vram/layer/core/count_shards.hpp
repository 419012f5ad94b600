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

/// One thread's count of bytes, or of blocks, since its counts were last added to those of the
/// layer.
struct shared_count {
    std::ptrdiff_t change = 0; ///< allocated minus freed, not yet in the layer's counters
    /// Bytes or blocks allocated, frees not subtracted, not yet in the layer's counters.
    std::uint64_t total = 0;
    std::size_t   room  = 0;
    /// The counted peak may be too low by this number of bytes or blocks. 0 while it is exact.
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

/// Lets threads count allocations and frees without a common lock, with values and totals that are
/// always exact. Each thread counts in its own *shard* (counters); above 32 threads, some share
/// one.
///
/// Each shard has *room*: what its thread may allocate by `try_add` while the sum over all shards
/// cannot exceed the peak (after `exact_calls`: by more than `slack` for each shard). If the room
/// is too small, `add` adds the counts of all shards to the counters of the layer.
///
/// Threads   Any thread may call `try_add`, `sub` and `refuse`. One thread at a time may call `add`
///           or `fold`.
/// Cost      One lock of the thread's own shard. `add` and `fold` take the locks of all shards.
class count_shards {
public:
    /// Number of calls of `add` (see `calls_`) after which peaks may be too low, by `slack` for
    /// each thread, so that threads call `add` less often.
    static constexpr unsigned exact_calls = 256;
    /// Returns by how many bytes or blocks one thread may make the counted peak too low: 1/128 of
    /// `peak`, but at least `least`.
    [[nodiscard]] static constexpr std::size_t slack(std::size_t    least,
                                                     std::ptrdiff_t peak) noexcept {
        return larger_of(least, static_cast<std::size_t>(peak) / 128);
    }
    static constexpr std::size_t least_bytes  = std::size_t{1} << 20;
    static constexpr std::size_t least_blocks = 64;

    /// Counts an allocation for the calling thread and returns true. Returns false and counts
    /// nothing if it may exceed the peak: the caller then calls `add`.
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

    /// Adds the counts of all threads to `sums` and sets them to 0. `anew` (a scope begins or
    /// ends): peaks are exact again for `exact_calls` calls of `add`.
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
    /// Adds an allocation that `try_add` refused, and the counts of all threads, to `sums`. Then
    /// permits the thread further calls of `try_add`, as far as the peak does.
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
        /// True if a thread that uses these counters has allocated or freed since the last `push`
        /// or `pop`; set by the next `gather` or `add`.
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
        /// Returns the bit set of the shards (counters of a thread) that this object has locked.
        [[nodiscard]] shards::set used() const noexcept { return used_; }

    private:
        shards::set                       used_;
        std::optional<biased_lock::guard> held_[shards::count];
    };

    /// Returns the shard (counters) of the calling thread. The first call for a shard locks it
    /// before other threads do, so that its lock is cheapest for this thread.
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
    /// Returns true if a thread with other counters than `s` has allocated or freed since the last
    /// `push` or `pop`. Otherwise peaks are exact anyway.
    [[nodiscard]] bool others_counted(shard const& s, all_held const& held) noexcept {
        bool found = false;
        for_each(held, [&](shard const& each) { found = found || (&each != &s && each.counted); });
        return found;
    }
    template <class Counter>
    void take(Counter& sum, shard& s, shared_count shard::* which, std::size_t n,
              all_held const& held) noexcept {
        // What may be allocated below the peak and is in no thread's `room` yet. Not negative: a
        // free that adds to a `room` lowers `sum.value` as much.
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
        // If `room` is less than `n`, the loop has emptied all other rooms: the sum exceeds the
        // peak, and `sum.add` raises it.
        room -= smaller_of(room, n);
        sum.add(n);
    }

    shards shards_;
    /// Number of calls of `add` since the last `push` or `pop` that found that other shards have
    /// counted. After `exact_calls` of them, peaks may be too low.
    std::uint64_t calls_ = 0;
};

/// Owns the counters for each thread of a `statistics` layer, which are created when a second
/// thread uses the layer.
///
/// Threads   Any thread may call `get`, one at a time `make`. Moving needs exclusive access.
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
    /// Returns the counters, and creates them if there are none. Returns null if there is no host
    /// memory.
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
