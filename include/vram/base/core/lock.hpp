// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `lock` is a mutex that can be a member of a movable class.

#include <vram/base/error.hpp> // count_lock, uncount_lock, report_stored_errors

#include <mutex> // mutex
#include <utility>

namespace vram {
namespace detail {

/// A mutex that can be a member of a movable class. The thread that holds it must call no upstream
/// resource, and no platform function that waits, so that other threads wait only briefly.
///
/// Threads   The object with this member must not be moved while a thread holds or awaits the lock.
class lock {
public:
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
            detail::count_lock();
        }
        void unlock() noexcept {
            bool const errors = detail::uncount_lock();
            held_             = false;
            mutex_->unlock();
            if (errors) [[unlikely]] { detail::report_stored_errors(); }
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

/// A lock without a mutex, for objects that only one thread uses: its functions do nothing.
class no_lock {
public:
    struct guard {
        guard() noexcept {}
        ~guard() {} // user-provided, so that an unused guard causes no warning
    };

    [[nodiscard]] guard hold() const noexcept { return {}; }
};

} // namespace detail
} // namespace vram
