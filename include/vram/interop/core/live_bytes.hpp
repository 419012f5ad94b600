// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `live_bytes` counts the live bytes of several threads, and their peak.

#include <vram/base/core/smaller_of.hpp> // smaller_of, larger_of
#include <vram/base/core/thread_shards.hpp>

#include <atomic> // atomic
#include <cstdint>
#include <mutex> // mutex, lock_guard, unique_lock

namespace vram {
namespace detail {

/// Counts live bytes and their peak. Most calls write only a counter of their thread: its *room*,
/// the bytes that the thread may still add before the peak must rise. With more than 32 threads,
/// some share a room. The live bytes are the peak minus the sum of all rooms, so they are never
/// above the peak. Any thread may call any function.
class live_bytes {
public:
    struct values {
        std::int64_t live = 0;
        std::int64_t peak = 0;
    };

    live_bytes()             = default;
    live_bytes(live_bytes&&) = delete;

    void add(std::int64_t n) noexcept {
        std::int64_t const lacking = n - take(mine().room, n);
        if (lacking != 0) [[unlikely]] { take_from_others(lacking); }
    }
    void sub(std::int64_t n) noexcept { mine().room.fetch_add(n); }

    /// Returns the current values. During calls of other threads, live bytes may miss an earlier
    /// change, but are never negative or above the peak.
    [[nodiscard, gnu::always_inline]] values now() const noexcept {
        std::int64_t const peak = peak_.load();
        std::int64_t       live = peak;
        shards_.for_each(shards_.used(), [&](shard const& each) {
            // `raise` subtracts `closed` (2^62) from each room for a time. The low 62 bits are the
            // room before and after.
            live -= each.room.load() & (closed - 1);
        });
        return {larger_of(live, std::int64_t{0}), peak};
    }

private:
    /// Subtracted from a room (bytes that a thread may add before the peak must rise) so that it is
    /// negative: no thread takes bytes from it then.
    static constexpr std::int64_t closed = std::int64_t{1} << 62;

    struct alignas(64) shard {
        std::atomic<std::int64_t> room{0};
    };

    /// Takes up to `most` bytes of `room`. Returns the number of bytes taken, 0 if the room is
    /// empty or closed (negative).
    [[nodiscard, gnu::always_inline]] static std::int64_t take(std::atomic<std::int64_t>& room,
                                                               std::int64_t most) noexcept {
        std::int64_t now  = room.load(std::memory_order_relaxed);
        std::int64_t part = 0;
        do {
            part = smaller_of(now, most);
            if (part <= 0) [[unlikely]] { return 0; }
        } while (!room.compare_exchange_weak(now, now - part));
        return part;
    }
    [[gnu::noinline]] void take_from_others(std::int64_t lacking) noexcept {
        shards_.for_each(shards_.used(), [&](shard& each) { lacking -= take(each.room, lacking); });
        if (lacking != 0) { raise(lacking); }
    }
    /// Makes `lacking` more bytes live: takes as many as possible from the rooms of all threads,
    /// and raises the peak by the rest.
    void raise(std::int64_t lacking) noexcept {
        std::lock_guard const held{mutex_};
        auto const            used = shards_.used();
        // Closes all rooms before taking bytes from them. Otherwise a thread could free into a
        // visited room and take as many bytes from the next one: the peak would become too high.
        shards_.for_each(used, [&](shard& each) { each.room.fetch_sub(closed); });
        shards_.for_each(used, [&](shard& each) {
            std::int64_t const part = smaller_of(each.room.load() + closed, lacking);
            each.room.fetch_sub(part);
            lacking -= part;
        });
        peak_.fetch_add(lacking);
        shards_.for_each(used, [&](shard& each) { each.room.fetch_add(closed); });
    }

    /// Returns the calling thread's share of the counters.
    [[nodiscard, gnu::always_inline]] shard& mine() noexcept {
        // A shard is first used with `mutex_` held, because `raise`, which holds it too, would
        // otherwise miss the room of the new shard.
        return shards_.mine([this](shard&) { return std::unique_lock{mutex_}; });
    }

    thread_shards<shard>      shards_;
    std::atomic<std::int64_t> peak_{0}; ///< changed with `mutex_` held
    std::mutex                mutex_;
};

} // namespace detail
} // namespace vram
