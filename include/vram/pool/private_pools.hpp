// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `private_pools` are pools that are made when somebody first needs them, and then stay in place.

#include <vram/base/requirements.hpp> // C++20

#include <atomic>  // atomic
#include <cstddef> // size_t, byte
#include <utility> // forward

namespace vram {

/// Places for pools. Each pool has cache lines of its own, so that the threads that use two of them
/// do not disturb each other.
///
/// Failure   `std::bad_alloc` from `make`, and what making a pool throws; nothing has changed
/// Threads   any, at once; moving and ending while unshared
/// Cost      `find` one load; `make` one host allocation
template <class Pool>
class private_pools {
public:
    static constexpr std::size_t most = 64; ///< places: here, so that finding a pool is one load

    private_pools() = default;
    private_pools(private_pools&& other) noexcept { *this = static_cast<private_pools&&>(other); }
    private_pools& operator=(private_pools&& other) noexcept {
        if (this == &other) { return *this; }
        clear();
        for (std::size_t i = 0; i < most; ++i) { made_[i] = other.made_[i].exchange(nullptr); }
        return *this;
    }
    ~private_pools() { clear(); }

    /// Ends all of them.
    void clear() noexcept {
        for (auto& each : made_) { delete each.exchange(nullptr); }
    }

    /// The pool at `index`, or null where none has been made.
    [[nodiscard]] Pool* find(std::size_t index) const noexcept {
        apart* const made = made_[index].load(std::memory_order_acquire);
        return made != nullptr ? &made->pool : nullptr;
    }
    /// Makes the pool at `index` from `args`, unless another thread has done so meanwhile.
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

    /// Calls `visit(pool)` for every pool that has been made.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (std::size_t i = 0; i < most; ++i) {
            if (Pool* const each = find(i)) { visit(*each); }
        }
    }

private:
    /// Two cache lines, for processors that fetch them in pairs.
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

} // namespace vram
