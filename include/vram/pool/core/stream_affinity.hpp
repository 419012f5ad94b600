// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_affinity` assigns streams to the shards of an arena, and remembers the assignment.

#include <vram/base/core/hash_cells.hpp> // scramble
#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/lock.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// Assigns each stream a seat: the index of a shard (one of the pools of an `arena`). A new stream
/// gets the seat with the fewest streams. Searches take no lock and may return the seat of another
/// stream. This is harmless, because every shard can serve every stream.
///
/// Failure   The constructor throws `std::bad_alloc`.
/// Threads   Any threads may call concurrently; a move needs exclusive access.
class stream_affinity {
public:
    /// Largest number of streams that have an assigned shard at one time. Before one more stream
    /// gets a shard, all assignments are forgotten. The other streams then get a shard again at
    /// their next call.
    static constexpr std::size_t most = 256;

    /// Creates an empty object, to which another one must be assigned before use.
    stream_affinity() = default;
    explicit stream_affinity(std::size_t seats) {
        taken_.reserve(seats);
        while (taken_.size() < seats) { taken_.push(0U); }
        cells_.reserve(2 * most);
        while (cells_.size() < 2 * most) { cells_.push(); }
    }

    /// Returns the seat (the index of the shard) of the stream with this key. The key must not be
    /// 0. Assigns a seat to a new stream.
    [[nodiscard]] std::size_t of(std::uint64_t key) noexcept {
        for (std::size_t i = home(key);; i = next(i)) {
            std::uint64_t const here = cells_[i].key.load(std::memory_order_acquire);
            if (here == key) { return cells_[i].seat.load(std::memory_order_relaxed); }
            if (here == 0) { return assign(key); }
        }
    }
    /// Removes the stream with this key, if known. The seat of the stream (the index of its shard)
    /// then counts one stream less.
    void forget(std::uint64_t key) noexcept {
        auto const  held = lock_.hold();
        std::size_t hole = place(key);
        if (get(hole).key == 0) { return; }
        --taken_[get(hole).seat];
        --known_;
        for (std::size_t i = next(hole); get(i).key != 0; i = next(i)) {
            if (((i - home(get(i).key)) & mask) >= ((i - hole) & mask)) {
                put(hole, get(i));
                hole = i;
            }
        }
        put(hole, {});
    }
    [[nodiscard]] std::size_t known() const {
        auto const held = lock_.hold();
        return known_;
    }

private:
    static constexpr std::size_t mask = 2 * most - 1;

    struct entry {
        std::uint64_t key  = 0; ///< key that identifies the stream, or 0 if the cell is empty
        std::uint32_t seat = 0;
    };
    struct cell {
        cell() = default;
        cell(cell&& other) noexcept : key{other.key.load()}, seat{other.seat.load()} {}

        std::atomic<std::uint64_t> key  = 0;
        std::atomic<std::uint32_t> seat = 0;
    };

    [[nodiscard]] static std::size_t home(std::uint64_t key) noexcept {
        return static_cast<std::size_t>(scramble(key) >> 32) & mask;
    }
    [[nodiscard]] static std::size_t next(std::size_t i) noexcept { return (i + 1) & mask; }

    [[nodiscard]] entry get(std::size_t i) const noexcept {
        return {cells_[i].key.load(std::memory_order_relaxed),
                cells_[i].seat.load(std::memory_order_relaxed)};
    }
    void put(std::size_t i, entry const& e) noexcept {
        cells_[i].seat.store(e.seat, std::memory_order_relaxed);
        // Stores the key last, so that a thread that reads the key also sees the stream's seat.
        cells_[i].key.store(e.key, std::memory_order_release);
    }
    /// Returns the index of the hash table's cell with this stream key or, if the key is absent, of
    /// the empty cell where it must be inserted.
    [[nodiscard]] std::size_t place(std::uint64_t key) const noexcept {
        std::size_t i = home(key);
        while (get(i).key != key && get(i).key != 0) { i = next(i); }
        return i;
    }

    std::size_t assign(std::uint64_t key) noexcept {
        auto const  held = lock_.hold();
        std::size_t at   = place(key);
        // Another thread may have assigned the stream a seat after the search without the lock.
        if (get(at).key == key) { return get(at).seat; }
        if (known_ == most) {
            start_again();
            at = home(key);
        }
        std::uint32_t least = 0;
        for (std::uint32_t i = 1; i < taken_.size(); ++i) {
            if (taken_[i] < taken_[least]) { least = i; }
        }
        put(at, {key, least});
        ++taken_[least];
        ++known_;
        return least;
    }
    void start_again() noexcept {
        for (std::size_t i = 0; i < cells_.size(); ++i) { put(i, {}); }
        for (auto& each : taken_) { each = 0; }
        known_ = 0;
    }

    lock                      lock_;
    heap_array<cell>          cells_;
    heap_array<std::uint32_t> taken_; ///< number of streams assigned to each seat (shard)
    std::size_t               known_ = 0;
};

} // namespace detail
} // namespace vram
