// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gate` is a mutex together with a condition variable.

#include <vram/base/core/durations.hpp> // nanoseconds, steady_clock

#include <atomic>             // atomic
#include <condition_variable> // condition_variable
#include <mutex>              // mutex, unique_lock
#include <thread>             // this_thread

namespace vram {
namespace detail {

/// A mutex with a condition variable: a thread changes data under the mutex and notifies; another
/// waits until the data has the expected value. `platform::gate` is the version of a platform.
///
///     { auto held = g.hold(); ready = true; }   g.notify();        // one side
///     auto held = g.hold(); g.wait(held, [&] { return ready; });   // the other
class gate {
public:
    using guard = std::unique_lock<std::mutex>;

    [[nodiscard]] guard hold() { return guard{mutex_}; }

    /// Waits until `ready()` returns true. The mutex is unlocked only while the thread sleeps.
    template <class Ready>
    void wait(guard& held, Ready ready) {
        while (!ready()) { condition_.wait(held); }
    }

    /// Waits until `ready()` returns true, at most for the duration `most`. Returns the last value
    /// of `ready()`.
    template <class Ready>
    bool wait_for(guard& held, std::chrono::nanoseconds most, Ready ready) {
        return condition_.wait_for(held, most, ready);
    }

    /// Waits until `ready()` returns true, at most for the duration `most`. Returns the last value
    /// of `ready()`. The thread does not sleep: with the mutex unlocked, it polls until another
    /// thread calls `notify` or `notify_awake`. Use this for waits of a few microseconds.
    template <class Ready>
    bool wait_awake(guard& held, std::chrono::nanoseconds most, Ready ready) {
        using clock      = std::chrono::steady_clock;
        auto const until = clock::now() + most;
        while (!ready()) {
            unsigned const seen = calls_.load(std::memory_order_relaxed);
            held.unlock();
            bool late = false;
            while (calls_.load(std::memory_order_acquire) == seen && !late) {
                std::this_thread::yield();
                late = clock::now() >= until;
            }
            held.lock();
            if (late) { return ready(); }
        }
        return true;
    }

    /// Wakes every thread that waits at this gate. Each of them calls its condition `ready()`
    /// again, and waits on if that returns false.
    void notify() noexcept {
        notify_awake();
        condition_.notify_all();
    }
    /// Makes the threads that poll in `wait_awake` call their `ready` again. Does not wake threads
    /// that sleep in `wait` or `wait_for`, and so needs no system call.
    void notify_awake() noexcept { calls_.fetch_add(1, std::memory_order_release); }

private:
    std::mutex              mutex_;
    std::condition_variable condition_;
    std::atomic<unsigned>   calls_{0}; ///< number of calls of `notify` and `notify_awake`
};

/// Waits at the gate `g` until `ready()` returns true. The caller has already polled for the
/// duration `polls`. On the simulated device, threads cannot poll. There, a notification within the
/// duration `polls` wakes the thread at no cost in simulated time.
template <class Gate, class Guard, class Ready>
void wait_after_polls(Gate& g, Guard& held, Ready const& ready, std::chrono::nanoseconds polls) {
    if constexpr (requires(Gate& one) { one.wait(held, ready, polls); }) {
        g.wait(held, ready, polls);
    } else {
        g.wait(held, ready);
    }
}

} // namespace detail
} // namespace vram
