// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `count_shards` divides the counters of `statistics` among threads.

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/late_shards.hpp>
#include <vram/base/core/smaller_of.hpp>    // smaller_of, larger_of
#include <vram/base/core/thread_shards.hpp> // peak_slack

#include <cstddef>
#include <cstdint>
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

/// The counts of one thread, guarded by `lock`. Above 32 threads, some share one.
template <class Histograms>
struct alignas(64) count_shard {
    biased_lock                      lock;
    shared_count                     bytes;
    shared_count                     blocks;
    std::uint64_t                    refusals = 0;
    [[no_unique_address]] Histograms histograms;
    /// Number of calls of `count_shards::add` since the last `push` or `pop` that found that other
    /// shards have counted.
    std::uint64_t calls = 0;
    /// True if a thread that uses these counters has allocated or freed since the last `push` or
    /// `pop`; set by the next call of a function of `count_shards`.
    bool counted = false;

    /// Counts an allocation and returns true. Returns false and counts nothing if it may exceed the
    /// peak: the caller then calls `count_shards::add`.
    [[nodiscard]] bool try_add(std::size_t n) noexcept {
        if (n > bytes.room || blocks.room == 0) { return false; }
        bytes.add(n);
        blocks.add(1);
        return true;
    }
    void sub(std::size_t n) noexcept {
        bytes.sub(n);
        blocks.sub(1);
    }
};

/// Lets threads count allocations and frees without a common lock, with values and totals that are
/// always exact. Each thread counts in its own *shard* (counters).
///
/// Each shard has *room*: what its thread may allocate by `try_add` while the sum over all shards
/// cannot exceed the peak (after `exact_calls`: by more than `peak_slack` for each). If the room
/// is too small, `add` adds the counts of all shards to the counters of the layer.
///
/// Threads   Call `add` and `fold` with the common lock held.
/// Cost      `add` and `fold` take the locks of all shards.
template <class Histograms, class Lock = biased_lock>
class count_shards : public late_shards<count_shard<Histograms>, Lock> {
    using held = typename thread_shards<count_shard<Histograms>>::all_held;

public:
    using shard = count_shard<Histograms>;

    /// Number of calls of `add` (see `calls`) after which peaks may be too low, by `peak_slack` for
    /// each thread, so that threads call `add` less often.
    static constexpr unsigned    exact_calls  = 256;
    static constexpr std::size_t least_bytes  = std::size_t{1} << 20;
    static constexpr std::size_t least_blocks = 64;

    /// Adds the counts of all threads to `sums` and sets them to 0. `anew` (a scope begins or
    /// ends): peaks are exact again for `exact_calls` calls of `add`.
    template <class Counters>
    void fold(Counters& sums, bool anew) noexcept {
        held const all = this->hold_shards();
        gather(sums, all);
        all.for_each([&](shard& each) {
            each.bytes.room = each.bytes.excess = 0;
            each.blocks.room = each.blocks.excess = 0;
            if (anew) { each.counted = false, each.calls = 0; }
        });
    }
    /// Adds an allocation that `mine.try_add` refused, and the counts of all threads, to `sums`.
    /// Then permits threads further calls of `try_add`, as far as the peak does.
    template <class Counters>
    [[gnu::noinline]] void add(Counters& sums, shard& mine, std::size_t bytes) noexcept {
        held const all = this->hold_shards();
        gather(sums, all);
        mine.counted         = true;
        bool          others = false; // otherwise peaks are exact anyway
        std::uint64_t calls  = 1;
        all.for_each([&](shard const& each) {
            others = others || (&each != &mine && each.counted);
            calls += each.calls;
        });
        if (others) {
            ++mine.calls;
            if (calls > exact_calls) {
                mine.bytes.excess  = peak_slack(least_bytes, sums.bytes.peak);
                mine.blocks.excess = peak_slack(least_blocks, sums.blocks.peak);
            }
        }
        add(sums.bytes, mine, &shard::bytes, bytes, all);
        add(sums.blocks, mine, &shard::blocks, 1, all);
    }

private:
    template <class Counter>
    static void gather(Counter& sum, shared_count& each) noexcept {
        sum.value += std::exchange(each.change, 0);
        sum.total += std::exchange(each.total, 0U);
    }
    template <class Counters>
    static void gather(Counters& sums, held const& all) noexcept {
        all.for_each([&](shard& each) {
            each.counted = each.counted || each.blocks.total != 0 || each.blocks.change != 0;
            gather(sums.bytes, each.bytes);
            gather(sums.blocks, each.blocks);
            sums.refusals += std::exchange(each.refusals, 0U);
        });
        sums.bytes.peak  = larger_of(sums.bytes.peak, sums.bytes.value);
        sums.blocks.peak = larger_of(sums.blocks.peak, sums.blocks.value);
    }
    /// Adds `n` to `sum`, and divides the room below the peak equally among all threads.
    template <class Counter>
    static void add(Counter& sum, shard& mine, shared_count shard::* which, std::size_t n,
                    held const& all) noexcept {
        auto room = static_cast<std::size_t>(sum.peak - sum.value);
        all.for_each([&](shard const& each) { room += (each.*which).excess; });
        // If `room` is less than `n`, the sum exceeds the peak, and `sum.add` raises it.
        room -= smaller_of(room, n);
        sum.add(n);
        std::size_t const part = room / all.size();
        all.for_each([&](shard& each) { (each.*which).room = part; });
        (mine.*which).room += room % all.size();
    }
};

} // namespace detail
} // namespace vram
