// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gate` is a mutex together with a condition variable.

#include <vram/base/durations.hpp> // nanoseconds, steady_clock

#include <atomic>             // atomic
#include <condition_variable> // condition_variable
#include <mutex>              // mutex, unique_lock
#include <thread>             // this_thread

namespace vram {

/// A monitor through which host threads pass work to each other.
///
///     { auto held = g.hold(); ready = true; }   g.notify();        // one side
///     auto held = g.hold(); g.wait(held, [&] { return ready; });   // the other
///
/// Each platform defines its own as `platform::gate`. The one of the simulator also passes the
/// virtual time of the notifying thread to the waiting one.
class gate {
public:
    using guard = std::unique_lock<std::mutex>;

    [[nodiscard]] guard hold() { return guard{mutex_}; }

    /// Waits until `ready()` returns true. The mutex is unlocked during the wait, and locked during
    /// each call of `ready`.
    template <class Ready>
    void wait(guard& held, Ready ready) {
        while (!ready()) { condition_.wait(held); }
    }

    /// Waits until `ready()` returns true, at most for `most`. Returns the last value of `ready()`.
    template <class Ready>
    bool wait_for(guard& held, std::chrono::nanoseconds most, Ready ready) {
        return condition_.wait_for(held, most, ready);
    }

    /// Waits as `wait_for`, but polls and yields instead of sleeping. Use it if the wait is
    /// expected to take microseconds, which blocking and waking would take as well.
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

    /// Wakes every waiting thread, which then calls its `ready` again.
    void notify() noexcept {
        notify_awake();
        condition_.notify_all();
    }
    /// Wakes only the threads in `wait_awake`, without a system call.
    void notify_awake() noexcept { calls_.fetch_add(1, std::memory_order_release); }

private:
    std::mutex              mutex_;
    std::condition_variable condition_;
    std::atomic<unsigned>   calls_{0}; ///< number of calls of `notify` and `notify_awake`
};

} // namespace vram
