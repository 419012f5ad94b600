// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `thread_shards` is an array with one object for each thread.

#include <vram/base/core/smaller_of.hpp> // larger_of
#include <vram/base/core/thread_number.hpp>

#include <atomic> // atomic
#include <bit>    // countr_zero, popcount
#include <cstddef>
#include <cstdint>
#include <optional> // optional

namespace vram {
namespace detail {

/// Returns 1/128 of `peak`, but at least `least`. If threads count their allocations separately,
/// each thread may make a computed peak wrong by this amount.
[[nodiscard]] constexpr std::size_t peak_slack(std::size_t least, std::ptrdiff_t peak) noexcept {
    return larger_of(least, static_cast<std::size_t>(peak) / 128);
}

/// An array of 32 objects (*shards*). Each thread uses one of them, so that threads rarely write to
/// the same object. Threads with equal `thread_number()` modulo 32 share a shard.
///
/// `mine` returns the shard of the calling thread. Its argument is a function that takes a lock.
/// `mine` calls this function only before the first use of a shard:
///
///     shard& s = shards.mine([](shard& first) { return first.lock.hold(); });
///
/// Threads   Any thread may call any function.
template <class Shard>
class thread_shards {
public:
    static constexpr unsigned count = 32;
    /// A set of shards, as bits: bit i is set if the set contains the shard with index i.
    using set = std::uint32_t;

    /// Returns the calling thread's shard. If the set `used()` does not contain this shard yet,
    /// first adds it. `lock(shard)` returns a lock, which is held during this change.
    template <class Lock>
    [[nodiscard, gnu::always_inline]] Shard& mine(Lock const& lock) noexcept {
        unsigned const at = thread_number() % count;
        if ((used_.load(std::memory_order_relaxed) >> at & 1U) == 0) [[unlikely]] {
            begin(at, lock);
        }
        return shards_[at];
    }
    [[nodiscard]] set used() const noexcept { return used_.load(); }

    template <class Visit>
    void for_each(set of, Visit const& visit) noexcept {
        for (; of != 0; of &= of - 1) { visit(shards_[std::countr_zero(of)]); }
    }
    template <class Visit>
    void for_each(set of, Visit const& visit) const noexcept {
        for (; of != 0; of &= of - 1) { visit(shards_[std::countr_zero(of)]); }
    }

    /// Locks every shard that a thread has used. The destructor unlocks them. If `all` is null,
    /// locks nothing. The caller must also hold the lock that `mine` takes before the first use of
    /// a shard, so that no thread can begin to use another shard.
    class all_held {
    public:
        explicit all_held(thread_shards* all) noexcept
            : all_{all}, used_{all != nullptr ? all->used() : 0} {
            std::size_t n = 0;
            for_each([&](Shard& each) { held_[n++].emplace(each.lock); });
        }
        all_held(all_held const&)            = delete;
        all_held& operator=(all_held const&) = delete;

        [[nodiscard]] std::size_t size() const noexcept {
            return static_cast<std::size_t>(std::popcount(used_));
        }
        template <class Visit>
        void for_each(Visit const& visit) const {
            if (all_ != nullptr) { all_->for_each(used_, visit); }
        }

    private:
        thread_shards*                                       all_;
        set                                                  used_;
        std::optional<typename decltype(Shard::lock)::guard> held_[count];
    };

private:
    template <class Lock>
    [[gnu::noinline]] void begin(unsigned at, Lock const& lock) noexcept {
        [[maybe_unused]] auto const held = lock(shards_[at]);
        used_.fetch_or(set{1} << at);
    }

    Shard            shards_[count];
    std::atomic<set> used_{0};
};

} // namespace detail
} // namespace vram
