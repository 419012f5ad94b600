// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gate` is where one host thread waits until another lets it on.

#include <chrono>             // nanoseconds
#include <condition_variable> // condition_variable
#include <mutex>              // mutex, unique_lock

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

    /// Lets every waiter look again.
    void notify() noexcept { condition_.notify_all(); }

private:
    std::mutex              mutex_;
    std::condition_variable condition_;
};

} // namespace vram
