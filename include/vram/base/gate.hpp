// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gate` is where one host thread waits until another lets it on.

#include <atomic>             // atomic
#include <chrono>             // nanoseconds, steady_clock
#include <condition_variable> // condition_variable
#include <mutex>              // mutex, unique_lock
#include <thread>             // this_thread

namespace vram {

/// A monitor: a mutex and the condition that its holders wait for.
///
///     { auto held = g.hold(); ready = true; }   g.notify();        // one side
///     auto held = g.hold(); g.wait(held, [&] { return ready; });   // the other
///
/// A platform names its gate (`platform::gate`): the simulated one also carries virtual time
/// across.
class gate {
public:
    using guard = std::unique_lock<std::mutex>;

    [[nodiscard]] guard hold() { return guard{mutex_}; }

    /// Waits, letting the mutex go meanwhile, until `ready()` is true; `ready` is called with the
    /// mutex held.
    template <class Ready>
    void wait(guard& held, Ready ready) {
        while (!ready()) { condition_.wait(held); }
    }

    /// The same, but no longer than `most`; whether `ready()` was true.
    template <class Ready>
    bool wait_for(guard& held, std::chrono::nanoseconds most, Ready ready) {
        return condition_.wait_for(held, most, ready);
    }

    /// The same, but awake: for who expects it within microseconds, which going to sleep, and being
    /// woken by the other side, would cost as well.
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

    /// Lets every waiter look again.
    void notify() noexcept {
        notify_awake();
        condition_.notify_all();
    }
    /// The same for those who stay awake, and no call of the system.
    void notify_awake() noexcept { calls_.fetch_add(1, std::memory_order_release); }

private:
    std::mutex              mutex_;
    std::condition_variable condition_;
    std::atomic<unsigned>   calls_{0}; ///< of `notify`
};

} // namespace vram
