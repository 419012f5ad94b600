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

/// The bytes, or the blocks, that one thread has allocated and freed since `gather` last added its
/// counts to those of the layer.
struct shared_count {
    std::ptrdiff_t change = 0; ///< allocated minus freed since the last `gather`
    /// Bytes or blocks allocated since the last `gather`, frees not subtracted.
    std::uint64_t total = 0;
    std::size_t   room  = 0;
    /// Bytes or blocks that the thread may allocate above the peak without raising it: the peak may
    /// be too low by this number. 0 while peaks are exact.
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
/// The *room* of a shard is what its thread may count by `try_add`. The sum plus all rooms is at
/// most the peak (after `exact_calls`: above it by up to `slack` for each shard). An allocation
/// that exceeds the room calls `add`, which adds the counts of all shards to those of the layer.
///
/// Threads   Any thread may call `try_add`, `sub` and `refuse`. One thread at a time may call `add`
///           or `fold`.
/// Cost      One lock of the thread's own shard. `add` and `fold` take the locks of all shards.
class count_shards {
public:
    /// Number of calls of `add` (counted in `calls_`) for which peaks are exact. Later, each
    /// thread's error may be `slack`, so that `add` is called less often.
    static constexpr unsigned exact_calls = 256;
    /// Returns the permitted error of the peak for each thread, in bytes or blocks: the larger of
    /// `least` and 1/128 of `peak`.
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

    /// Adds the counts of all threads to `sums` and sets them to 0. If `anew` (a scope begins or
    /// ends), a new period of `exact_calls` with exact peaks begins.
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
    /// Counts an allocation that `try_add` refused, and adds the counts of all threads to `sums`.
    /// Then gives the calling thread room below the peak, if there is any.
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
        /// True if `gather` or `add` has seen that a thread of this shard has allocated or freed
        /// since the last `push` or `pop`.
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

    /// Returns the shard (counters) of the calling thread. The first thread of a shard locks it at
    /// once, because the lock is cheapest for the thread that takes it first.
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
    /// Returns true if a shard other than `s` has counted an allocation or a free since the last
    /// `push` or `pop`.
    [[nodiscard]] bool others_counted(shard const& s, all_held const& held) noexcept {
        bool found = false;
        for_each(held, [&](shard const& each) { found = found || (&each != &s && each.counted); });
        return found;
    }
    template <class Counter>
    void take(Counter& sum, shard& s, shared_count shard::* which, std::size_t n,
              all_held const& held) noexcept {
        // How much can be allocated (up to the peak and all `excess`) and is in no shard's `room`.
        // Not negative: a free that adds to a `room` lowers `sum.value` as much.
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
        // If `room` is still less than `n`, all other rooms are 0: the allocation exceeds the peak,
        // and `sum.add` raises it.
        room -= smaller_of(room, n);
        sum.add(n);
    }

    shards shards_;
    /// Number of calls of `add` since the last `push` or `pop` during which other shards had counts
    /// too. Above `exact_calls`, peaks may be too low.
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
