// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `late_shards` is a lock that is divided among threads when a second thread takes it.

#include <vram/base/core/biased_lock.hpp>
#include <vram/base/core/lock.hpp> // no_lock
#include <vram/base/core/thread_shards.hpp>

#include <atomic> // atomic
#include <new>    // nothrow

namespace vram {
namespace detail {

/// A common lock for data that several threads use. When a second thread calls `mine`, the class
/// creates 32 *shards* (parts of the data), if it has none yet. Each thread then uses one shard,
/// under the lock `Shard::lock` of that shard (a `biased_lock`).
///
/// In this example, `sum` is in the common part of the data, and `mine->sum` is in a shard:
///
///     auto const add = [&] { ++sum; };
///     if (shards.alone(add)) { return; }
///     if (shard* const mine = shards.mine(add)) {
///         auto const held = mine->lock.hold();
///         ++mine->sum;
///     }
///
/// Failure   If no host memory is left for shards, all threads use the common lock.
/// Threads   Any thread may call any function, but not during a move. A thread that holds the lock
///           of a shard must not wait for the common lock.
/// Cost      One lock for each use. The shards are 32 objects in host memory.
template <class Shard, class Lock = biased_lock>
class late_shards {
public:
    using shards = thread_shards<Shard>;

    late_shards() = default;
    late_shards(late_shards&& other) noexcept : made_{other.made_.exchange(nullptr)} {}
    late_shards& operator=(late_shards&& other) noexcept {
        delete made_.exchange(other.made_.exchange(nullptr));
        return *this;
    }
    ~late_shards() { delete made_.load(std::memory_order_relaxed); }

    /// Tries the fast way for data that only one thread uses. On success, calls `use()` under the
    /// common lock and returns true. If it returns false, nothing was done: call `mine` instead.
    template <class Use>
    [[nodiscard, gnu::always_inline]] bool alone(Use const& use) noexcept {
        if (get() != nullptr) [[unlikely]] { return false; }
        auto const held = lock_.hold_by_bias();
        if (!held.owns_lock()) [[unlikely]] { return false; }
        use();
        return true;
    }
    /// Returns the calling thread's shard (its part of the data). The caller then locks the shard.
    /// If there are no shards, or no host memory is left for them, calls `use()` under the common
    /// lock and returns null.
    template <class Use>
    [[nodiscard, gnu::always_inline]] Shard* mine(Use const& use) noexcept {
        shards* all = get();
        if (all == nullptr) [[unlikely]] {
            auto const held = lock_.hold();
            if (!held.by_bias()) { all = make(); }
            if (all == nullptr) {
                use();
                return nullptr;
            }
        }
        return &all->mine(first_use{lock_});
    }

    /// Takes the common lock.
    [[nodiscard]] auto hold() const noexcept { return lock_.hold(); }
    /// Calls `visit(shard)` for each shard that a thread has used. Locks no shard.
    template <class Visit>
    void for_each(Visit const& visit) const noexcept {
        if (shards* const all = get()) { all->for_each(all->used(), visit); }
    }
    /// Locks all shards that threads have used. The caller must hold the common lock (`hold()`).
    [[nodiscard]] auto hold_shards() const noexcept { return typename shards::all_held{get()}; }

private:
    /// The locks that a thread holds while it begins to use a shard. `hold_shards` is called under
    /// the common lock, so it misses no shard. The thread that takes the shard's own lock first can
    /// later take it cheaply (see `biased_lock`).
    struct first_use {
        struct both {
            biased_lock::guard common, own;
        };
        biased_lock const& common;

        both operator()(Shard& first) const noexcept { return {common.hold(), first.lock.hold()}; }
    };

    [[nodiscard]] shards* get() const noexcept { return made_.load(std::memory_order_acquire); }
    [[nodiscard]] shards* make() noexcept {
        if (get() == nullptr) { made_.store(new (std::nothrow) shards, std::memory_order_release); }
        return get();
    }

    biased_lock          lock_;
    std::atomic<shards*> made_{nullptr};
};

/// Specialization for data that only one thread uses. It locks nothing and creates no shards.
template <class Shard>
class late_shards<Shard, no_lock> {
public:
    template <class Use>
    [[nodiscard, gnu::always_inline]] bool alone(Use const& use) noexcept {
        use();
        return true;
    }
    template <class Use>
    [[nodiscard]] Shard* mine(Use const& use) noexcept {
        use();
        return nullptr;
    }
    template <class Visit>
    void for_each(Visit const&) const noexcept {}

    [[nodiscard]] static auto hold() noexcept { return no_lock::guard{}; }
    [[nodiscard]] static auto hold_shards() noexcept {
        return typename thread_shards<Shard>::all_held{nullptr};
    }
};

} // namespace detail
} // namespace vram
