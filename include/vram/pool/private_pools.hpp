// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `private_pools` are pools that are made when somebody first needs them, and then stay in place.

#include <vram/pool/heap_array.hpp> // heap_array

#include <atomic>  // atomic
#include <cstddef> // size_t, byte
#include <utility> // forward

namespace vram {

/// A fixed number of places for pools. Each pool has cache lines of its own, so that the threads
/// that use two of them do not disturb each other.
///
/// Failure   `std::bad_alloc` from `make`, and what making a pool throws; nothing has changed
/// Threads   any, at once; moving and ending while unshared
/// Cost      `find` two loads; `make` one host allocation
template <class Pool>
class private_pools {
public:
    explicit private_pools(std::size_t count) {
        places_.reserve(count);
        for (std::size_t i = 0; i < count; ++i) { places_.push(); }
    }

    /// The pool at `index`, or null where none has been made.
    [[nodiscard]] Pool* find(std::size_t index) const noexcept {
        apart* const made = places_[index].made.load(std::memory_order_acquire);
        return made != nullptr ? &made->pool : nullptr;
    }
    /// Makes the pool at `index` from `args`, unless another thread has done so meanwhile.
    template <class... Args>
    Pool& make(std::size_t index, Args&&... args) {
        auto* const fresh = new apart(std::forward<Args>(args)...);
        apart*      made  = nullptr;
        if (places_[index].made.compare_exchange_strong(made, fresh, std::memory_order_acq_rel)) {
            return fresh->pool;
        }
        delete fresh;
        return made->pool;
    }

    /// Calls `visit(pool)` for every pool that has been made.
    template <class Visit>
    void for_each(Visit const& visit) const {
        for (std::size_t i = 0; i < places_.size(); ++i) {
            if (Pool* const each = find(i)) { visit(*each); }
        }
    }
    /// How many places there are.
    [[nodiscard]] std::size_t size() const noexcept { return places_.size(); }
    void                      clear() noexcept { places_.clear(); }

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
    struct place {
        place() = default;
        place(place&& other) noexcept : made{other.made.exchange(nullptr)} {}
        ~place() { delete made.load(std::memory_order_relaxed); }

        std::atomic<apart*> made = nullptr;
    };

    heap_array<place> places_;
};

} // namespace vram
