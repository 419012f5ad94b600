// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_shards` is a fixed array of pools that are created on first use and then keep their
/// addresses.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// A fixed array of pools, each created by the first call of `make` for its index. A pool keeps its
/// address until `clear`; no two pools share a cache line.
///
/// Threads   Any number of threads may call `find`, `make` and `for_each` concurrently; other
///           functions need exclusive use.
template <class Pool>
class arena_shards {
public:
    /// Largest number of pools.
    static constexpr std::size_t most = 64;

    arena_shards() = default;
    arena_shards(arena_shards&& other) noexcept { *this = static_cast<arena_shards&&>(other); }
    arena_shards& operator=(arena_shards&& other) noexcept {
        if (this == &other) { return *this; }
        clear();
        for (std::size_t i = 0; i < most; ++i) { made_[i] = other.made_[i].exchange(nullptr); }
        return *this;
    }
    ~arena_shards() { clear(); }

    void clear() noexcept {
        for (auto& each : made_) { delete each.exchange(nullptr); }
    }

    /// Returns the pool at `index`, or null if it has not been created.
    [[nodiscard]] Pool* find(std::size_t index) const noexcept {
        apart* const made = made_[index].load(std::memory_order_acquire);
        return made != nullptr ? &made->pool : nullptr;
    }
    /// Creates a pool from `args`, stores it at `index`, and returns it. If another thread has
    /// already stored a pool there, returns that pool.
    template <class... Args>
    Pool& make(std::size_t index, Args&&... args) {
        auto* const fresh = new apart(std::forward<Args>(args)...);
        apart*      made  = nullptr;
        if (made_[index].compare_exchange_strong(made, fresh, std::memory_order_acq_rel)) {
            return fresh->pool;
        }
        delete fresh;
        return made->pool;
    }

    template <class Visit>
    void for_each(Visit const& visit) const {
        for (std::size_t i = 0; i < most; ++i) {
            if (Pool* const each = find(i)) { visit(*each); }
        }
    }

private:
    /// Bytes of padding before and after each pool. Some processors fetch two cache lines at once.
    static constexpr std::size_t between = 128;

    struct apart {
        template <class... Args>
        explicit apart(Args&&... args) : pool(std::forward<Args>(args)...) {}

        std::byte before[between];
        Pool      pool;
        std::byte after[between];
    };

    std::atomic<apart*> made_[most]{};
};

} // namespace detail
} // namespace vram
