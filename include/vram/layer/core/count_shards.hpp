// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `count_shards` divides the counters of `statistics` among threads.

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/smaller_of.hpp> // smaller_of, larger_of
#include <vram/base/core/thread_number.hpp>

#include <atomic>   // atomic
#include <cstddef>  // size_t, ptrdiff_t
#include <cstdint>  // uint64_t
#include <new>      // nothrow
#include <optional> // optional
#include <utility>  // exchange

namespace vram {
namespace detail {

/// The changes of a value by one thread since they were last added to the sum, and the *room* of
/// the thread: by how much it may raise the value without a look at the other threads.
struct shared_count {
    std::ptrdiff_t change = 0;
    std::uint64_t  total  = 0; ///< the sum of all additions
    std::size_t    room   = 0;
    std::size_t    excess = 0; ///< the part of all rooms that could raise the peak

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

/// The counts of several threads, which are added to the sums by `fold`. An addition within the
/// room of its thread changes counts of this thread alone. Any other is made by `add`, which adds
/// the counts of all threads first. A free gives its thread room.
///
/// Values and totals are exact. A peak is exact too while the rooms of all threads together are at
/// most the peak minus the value. But then threads whose sum stays near the peak look at each other
/// again and again. So after `exact_calls` calls of `add` in a scope (those of a thread that counts
/// alone are left out), each thread that calls `add` gets an *excess* of room: `slack`. A peak may
/// then be too low, at most by the excesses of all threads. It is never too high.
///
/// Threads   Any thread may call `try_add`, `sub` and `refuse`. One thread at a time may call the
///           other functions: the owner has a lock for it.
/// Cost      A `biased_lock` of the thread. `add` and `fold` take those of all threads.
class count_shards {
public:
    /// How often threads may call `add` in a scope before they get an excess of room.
    static constexpr unsigned exact_calls = 256;
    /// Returns the excess of room of a thread, if `least` is that for a low peak.
    [[nodiscard]] static constexpr std::size_t slack(std::size_t    least,
                                                     std::ptrdiff_t peak) noexcept {
        return larger_of(least, static_cast<std::size_t>(peak) / 128);
    }
    static constexpr std::size_t least_bytes  = std::size_t{1} << 20;
    static constexpr std::size_t least_blocks = 64;

    /// Counts an allocation. Counts nothing and returns false if the thread lacks room.
    [[nodiscard]] bool try_add(std::size_t bytes) noexcept {
        shard&     s    = mine();
        auto const held = s.lock.hold();
        if (bytes > s.bytes.room || s.blocks.room == 0) { return false; }
        s.bytes.add(bytes);
        s.blocks.add(1);
        return true;
    }
    /// Counts a free.
    void sub(std::size_t bytes) noexcept {
        shard&     s    = mine();
        auto const held = s.lock.hold();
        s.bytes.sub(bytes);
        s.blocks.sub(1);
    }
    /// Counts a refusal.
    void refuse() noexcept {
        shard&     s    = mine();
        auto const held = s.lock.hold();
        ++s.refusals;
    }

    /// Moves the counts of all threads to `sums`, a `counters`. No thread has room then. With
    /// `anew`, a scope begins: threads may again call `add` `exact_calls` times.
    template <class Counters>
    void fold(Counters& sums, bool anew) noexcept {
        all_held const held{*this};
        gather(sums, held);
        for_each(held, [&](shard& each) {
            each.bytes.room = each.bytes.excess = 0;
            each.blocks.room = each.blocks.excess = 0;
            if (anew) { each.counted = false; }
        });
        if (anew) { calls_ = 0; }
    }
    /// Moves the counts of all threads to `sums`, and counts an allocation of the calling thread
    /// there. The thread gets the room that no thread has, and if it is not enough, that of others.
    template <class Counters>
    void add(Counters& sums, std::size_t bytes) noexcept {
        shard&         s = mine();
        all_held const held{*this};
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
    static constexpr unsigned count = 32;

    struct alignas(64) shard {
        biased_lock   lock;
        shared_count  bytes;
        shared_count  blocks;
        std::uint64_t refusals = 0;
        bool          counted  = false; ///< true if the thread has counted a change in the scope
    };

    /// Holds the locks of all shards that are in use.
    class all_held {
    public:
        explicit all_held(count_shards& owner) noexcept
            : used_{owner.used_.load(std::memory_order_acquire)} {
            for (unsigned i = 0; i != count; ++i) {
                if (has(i)) { held_[i].emplace(owner.shards_[i].lock); }
            }
        }
        /// Returns true if the shard `i` is in use, and its lock is held.
        [[nodiscard]] bool has(unsigned i) const noexcept { return (used_ >> i & 1U) != 0; }

    private:
        std::uint32_t                     used_;
        std::optional<biased_lock::guard> held_[count];
    };

    /// Returns the shard of the calling thread.
    [[nodiscard, gnu::always_inline]] shard& mine() noexcept {
        unsigned const at = thread_number() % count;
        if ((used_.load(std::memory_order_relaxed) >> at & 1U) == 0) [[unlikely]] { begin(at); }
        return shards_[at];
    }
    /// Takes a shard into use. The thread locks it before any other thread can, to own its bias.
    [[gnu::noinline]] void begin(unsigned at) noexcept {
        auto const held = shards_[at].lock.hold();
        used_.fetch_or(std::uint32_t{1} << at, std::memory_order_release);
    }
    /// Calls `visit(shard)` for each shard that is in use.
    template <class Visit>
    void for_each(all_held const& held, Visit const& visit) noexcept {
        for (unsigned i = 0; i != count; ++i) {
            if (held.has(i)) { visit(shards_[i]); }
        }
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
    /// Returns true if a thread other than that of `s` has counted a change in the scope.
    [[nodiscard]] bool others_counted(shard const& s, all_held const& held) noexcept {
        bool found = false;
        for_each(held, [&](shard const& each) { found = found || (&each != &s && each.counted); });
        return found;
    }
    template <class Counter>
    void take(Counter& sum, shard& s, shared_count shard::* which, std::size_t n,
              all_held const& held) noexcept {
        // The room that no thread has. It is not negative: a room grows by frees and by this alone.
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
        room -= smaller_of(room, n); // if it is not enough, no thread has room, and the peak rises
        sum.add(n);
    }

    shard                      shards_[count];
    std::atomic<std::uint32_t> used_{0}; ///< bit i is set if the shard i is in use
    /// Calls of `add` in the scope, except those of a thread that counts alone.
    std::uint64_t calls_ = 0;
};

/// The `count_shards` of a layer, made when a second thread uses it.
///
/// Threads   Any thread may call `get`. Move it only if no other thread uses it.
class late_count_shards {
public:
    late_count_shards() = default;
    late_count_shards(late_count_shards&& other) noexcept : made_{other.made_.exchange(nullptr)} {}
    late_count_shards& operator=(late_count_shards&& other) noexcept {
        delete made_.exchange(other.made_.exchange(nullptr));
        return *this;
    }
    ~late_count_shards() { delete made_.load(std::memory_order_relaxed); }

    /// Returns the shards, or null if there are none.
    [[nodiscard]] count_shards* get() const noexcept {
        return made_.load(std::memory_order_acquire);
    }
    /// Returns the shards. Makes them if there are none; returns null if there is no host memory.
    /// One thread at a time may call.
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
