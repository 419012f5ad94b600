// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gauge` is a counter with an upper limit, for several threads.

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/late_shards.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// A counter of bytes with a limit. `try_add` refuses an addition only if the sum would exceed the
/// limit. Once several threads use the counter, the bytes that are left below the limit are divided
/// among the threads. Each thread then adds and subtracts in its own part. If an addition does not
/// fit in that part, all bytes that are left are divided again.
///
/// Threads   Any thread may use it, but not during a move.
/// Cost      Usually one lock, that of the thread's own part. `used`, a refusal and a new division
///           take the locks of all parts.
class gauge {
public:
    explicit gauge(std::size_t limit) noexcept : limit_{limit}, room_{limit} {}
    gauge(gauge&& other) noexcept
        : limit_{other.limit_},
          room_{std::exchange(other.room_, other.limit_)},
          shards_{std::move(other.shards_)} {}
    gauge& operator=(gauge&& other) noexcept {
        limit_  = other.limit_;
        room_   = std::exchange(other.room_, other.limit_);
        shards_ = std::move(other.shards_);
        return *this;
    }
    ~gauge() = default;

    /// Adds `bytes` and returns true, unless the sum would exceed the limit: then changes nothing
    /// and returns false.
    [[nodiscard]] bool try_add(std::size_t bytes) noexcept {
        bool added = false;
        if (shards_.alone([&] { added = take(room_, bytes); })) [[likely]] { return added; }
        return add_with_others(bytes);
    }
    void sub(std::size_t bytes) noexcept {
        if (!shards_.alone([&] { room_ += bytes; })) { sub_with_others(bytes); }
    }

    /// Returns the bytes that are added and not yet subtracted.
    [[nodiscard]] std::size_t used() const noexcept {
        auto const held = shards_.hold();
        return limit_ - room(shards_.hold_shards());
    }
    [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

private:
    /// One thread's part of the bytes that are left below the limit, and the lock of that part.
    struct alignas(64) shard {
        biased_lock lock;
        std::size_t room = 0; ///< bytes that the thread may add before a new division
    };

    [[nodiscard]] static bool take(std::size_t& room, std::size_t bytes) noexcept {
        if (bytes > room) { return false; }
        room -= bytes;
        return true;
    }
    /// Returns the bytes that are left below the limit: `room_` plus the parts of all threads. The
    /// caller holds the locks of these parts in `all`.
    template <class Held>
    [[nodiscard]] std::size_t room(Held const& all) const noexcept {
        std::size_t sum = room_;
        all.for_each([&](shard const& each) { sum += each.room; });
        return sum;
    }
    [[gnu::noinline]] bool add_with_others(std::size_t bytes) noexcept {
        bool         added = false;
        shard* const mine  = shards_.mine([&] { added = take(room_, bytes); });
        if (mine == nullptr) { return added; }
        {
            auto const held = mine->lock.hold();
            if (take(mine->room, bytes)) { return true; }
        }
        return divide(bytes);
    }
    /// Takes `bytes` from the bytes that are left below the limit, and divides the rest equally
    /// among the threads. Returns false, and changes nothing, if too few bytes are left.
    [[nodiscard, gnu::noinline]] bool divide(std::size_t bytes) noexcept {
        auto const  held = shards_.hold();
        auto const  all  = shards_.hold_shards();
        std::size_t left = room(all);
        if (!take(left, bytes)) { return false; }
        std::size_t const part = left / all.size();
        all.for_each([&](shard& each) { each.room = part; });
        room_ = left - part * all.size();
        return true;
    }
    [[gnu::noinline]] void sub_with_others(std::size_t bytes) noexcept {
        if (shard* const mine = shards_.mine([&] { room_ += bytes; })) {
            auto const held = mine->lock.hold();
            mine->room += bytes;
        }
    }

    std::size_t        limit_;
    std::size_t        room_; ///< bytes left below `limit_` that belong to no thread's `shard`
    late_shards<shard> shards_;
};

} // namespace detail
} // namespace vram
