// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `brief_lock` is a lock for what takes a few dozen instructions.

#include <vram/base/lock.hpp> // locks_held

#include <atomic>  // atomic
#include <mutex>   // mutex, lock_guard
#include <utility> // exchange

namespace vram {

/// A lock that is taken by one exchange and given back by one store: half of what a mutex costs
/// where nobody else wants it. Of those who wait, one watches and the others sleep. As a member of
/// something that moves, it is fresh in its new place.
///
/// Threads   moving while another thread holds or awaits it is a broken contract of the owner
/// Cost      taking and giving back about 6 ns together; whoever waits keeps a core busy, so no
///           call of an upstream or of the platform is made with it held
class brief_lock {
public:
    /// Holds the lock until it ends.
    class [[nodiscard]] guard {
    public:
        explicit guard(brief_lock const& owner) noexcept : owner_{&owner} { lock(); }
        guard(guard&& other) noexcept
            : owner_{other.owner_}, held_{std::exchange(other.held_, false)} {}
        guard& operator=(guard&&) = delete;
        ~guard() {
            if (held_) { unlock(); }
        }

        void lock() noexcept {
            if (owner_->taken_.exchange(true, std::memory_order_acquire)) { owner_->await(); }
            held_ = true;
            ++detail::locks_held;
        }
        void unlock() noexcept {
            --detail::locks_held;
            held_ = false;
            owner_->taken_.store(false, std::memory_order_release);
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_; }

    private:
        brief_lock const* owner_;
        bool              held_ = false;
    };

    brief_lock() = default;
    brief_lock(brief_lock&&) noexcept {}
    brief_lock& operator=(brief_lock&&) noexcept { return *this; }

    [[nodiscard]] guard hold() const noexcept { return guard{*this}; }

private:
    void await() const noexcept {
        std::lock_guard const first_in_line{line_};
        for (unsigned pauses = 1;; pauses = pauses < 256 ? 2 * pauses : pauses) {
            for (unsigned i = 0; i < pauses; ++i) { pause(); }
            if (!taken_.load(std::memory_order_relaxed) &&
                !taken_.exchange(true, std::memory_order_acquire)) {
                return;
            }
        }
    }
    /// Tells the core that it is waiting, so that its twin and the bus are spared.
    static void pause() noexcept {
#if defined __x86_64__
        __builtin_ia32_pause();
#elif defined __aarch64__
        asm volatile("yield");
#endif
    }

    mutable std::atomic<bool> taken_ = false;
    mutable std::mutex        line_;
};

} // namespace vram
