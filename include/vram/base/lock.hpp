// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `lock` is a mutex that its owner may be moved with, until it is shared.

#include <vram/base/error.hpp> // held_one, let_one_go, tell_errors

#include <mutex>   // mutex
#include <utility> // exchange

namespace vram {

/// A mutex as a member of something that moves: the mutex of the new place is fresh. Whoever holds
/// it calls no upstream, and nothing of the platform that waits.
///
/// Threads   moving while another thread holds or awaits it is a broken contract of the owner
class lock {
public:
    /// Holds the mutex until it ends.
    class [[nodiscard]] guard {
    public:
        explicit guard(std::mutex& mutex) : mutex_{&mutex} { lock(); }
        guard(guard&& other) noexcept
            : mutex_{other.mutex_}, held_{std::exchange(other.held_, false)} {}
        guard& operator=(guard&&) = delete;
        ~guard() {
            if (held_) { unlock(); }
        }

        void lock() {
            mutex_->lock();
            held_ = true;
            detail::held_one();
        }
        void unlock() noexcept {
            bool const errors = detail::let_one_go();
            held_             = false;
            mutex_->unlock();
            if (errors) [[unlikely]] { detail::tell_errors(); }
        }
        [[nodiscard]] bool owns_lock() const noexcept { return held_; }

    private:
        std::mutex* mutex_;
        bool        held_ = false;
    };

    lock() = default;
    lock(lock&&) noexcept {}
    lock& operator=(lock&&) noexcept { return *this; }

    [[nodiscard]] guard hold() const { return guard{mutex_}; }

private:
    mutable std::mutex mutex_;
};

/// The lock of what one thread uses alone. Costs nothing.
class no_lock {
public:
    struct guard {
        guard() noexcept {}
        ~guard() {} // spoken for, so that a guard which is only held is no warning
    };

    [[nodiscard]] guard hold() const noexcept { return {}; }
};

} // namespace vram
