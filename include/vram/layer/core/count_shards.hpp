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

/// What one thread has allocated and freed: a number of bytes, or a number of blocks. `gather` adds
/// `change` and `total` to the counters of the layer, and sets them to 0.
struct shared_count {
    std::ptrdiff_t change = 0; ///< bytes or blocks allocated minus freed since the last `gather`
    /// Bytes or blocks that the thread has allocated since `gather` last collected the counts.
    /// Frees are not subtracted.
    std::uint64_t total = 0;
    std::size_t   room  = 0;
    /// By how many bytes or blocks the allocations of this thread may exceed the peak before the
    /// peak is raised. It is 0 while peaks are exact.
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

/// The counters of one thread, guarded by `lock`. There are at most 32 of these objects, so several
/// threads may share one.
template <class Histograms>
struct alignas(64) count_shard {
    biased_lock                      lock;
    shared_count                     bytes;
    shared_count                     blocks;
    std::uint64_t                    refusals = 0;
    [[no_unique_address]] Histograms histograms;
    /// Number of calls of `count_shards::add` for this shard since the last `push` or `pop` of the
    /// layer. A call counts only if another shard was also used since then.
    std::uint64_t calls = 0;
    /// True if this shard has counted an allocation or free since the last `push` or `pop`. The
    /// member is not set by `try_add` and `sub`, but later by `count_shards::add` or `fold`.
    bool counted = false;

    /// Counts an allocation of `n` bytes and returns true, if `room` permits it. Otherwise counts
    /// nothing and returns false, and the caller must call `count_shards::add`. `room`: bytes or
    /// blocks that this thread may allocate without the locks of other threads.
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

/// Lets threads count allocations and frees without a common lock. Each thread counts in a *shard*,
/// which has counters of its own. Values and totals are always exact.
///
/// Each shard has *room*: the bytes and blocks that its thread may allocate without the locks of
/// other shards. The rooms are so small that the sum of all shards cannot exceed the peak. If a
/// room is too small for a request, `add` adds up all shards and divides the room again. After
/// `exact_calls` such calls, each shard may add `peak_slack` to the room. A peak may then be too
/// low.
///
/// Threads   The caller of `add` and `fold` holds the common lock (`hold`).
/// Cost      `add` and `fold` take the locks of all shards.
template <class Histograms, class Lock = biased_lock>
class count_shards : public late_shards<count_shard<Histograms>, Lock> {
    using held = typename thread_shards<count_shard<Histograms>>::all_held;

public:
    using shard = count_shard<Histograms>;

    /// Number of calls of `add` after a `push` or `pop` for which peaks are exact. After that, each
    /// shard may make a peak too low by `peak_slack`.
    static constexpr unsigned    exact_calls  = 256;
    static constexpr std::size_t least_bytes  = std::size_t{1} << 20;
    static constexpr std::size_t least_blocks = 64;

    /// Adds the counts of all threads to `sums`, and sets the counts of the threads to 0. `anew`:
    /// true if a scope begins or ends. Peaks are then exact for the next `exact_calls` calls of
    /// `add`.
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
    /// Counts an allocation for which the room of the shard `mine` was too small. Adds the counts
    /// of all threads and this allocation to `sums`. Then divides the room again among the threads.
    template <class Counters>
    [[gnu::noinline]] void add(Counters& sums, shard& mine, std::size_t bytes) noexcept {
        held const all = this->hold_shards();
        gather(sums, all);
        mine.counted = true;
        // True if a shard other than `mine` has counted since the last `push` or `pop`.
        bool          others = false;
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
    /// Adds an allocation of `n` bytes or blocks to `sum`, and divides the remaining room equally
    /// among the shards. Before the allocation, the room is `sum.peak - sum.value` plus the
    /// `excess` of all shards.
    template <class Counter>
    static void add(Counter& sum, shard& mine, shared_count shard::* which, std::size_t n,
                    held const& all) noexcept {
        auto room = static_cast<std::size_t>(sum.peak - sum.value);
        all.for_each([&](shard const& each) { room += (each.*which).excess; });
        // If `n` is larger than the room, no room is left, and `sum.add` raises the peak.
        room -= smaller_of(room, n);
        sum.add(n);
        std::size_t const part = room / all.size();
        all.for_each([&](shard& each) { (each.*which).room = part; });
        (mine.*which).room += room % all.size();
    }
};

} // namespace detail
} // namespace vram
