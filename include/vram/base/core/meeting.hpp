// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `meeting` is a mutex with a condition for waits without a time limit.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <mutex>  // mutex, unique_lock

namespace vram {
namespace detail {

/// A mutex with a condition: a thread changes data under the mutex and notifies; another waits
/// until the data has the expected value. It needs no `<condition_variable>`, which is slow to
/// compile.
///
///     { auto held = m.hold(); ready = true; }   m.notify();        // one side
///     auto held = m.hold(); m.wait(held, [&] { return ready; });   // the other
class meeting {
public:
    using guard = std::unique_lock<std::mutex>;

    [[nodiscard]] guard hold() { return guard{mutex_}; }

    /// Waits until `ready()` returns true. The mutex is unlocked only while the thread sleeps.
    template <class Ready>
    void wait(guard& held, Ready ready) {
        for (;;) {
            // `calls_` is read before `ready()` is called. If another thread notifies after that,
            // `calls_` differs from `seen`, and this thread does not sleep.
            unsigned const seen = calls_.load(std::memory_order_acquire);
            if (ready()) { return; }
            held.unlock();
            calls_.wait(seen, std::memory_order_acquire);
            held.lock();
        }
    }

    /// Wakes every waiting thread. Each of them then calls its `ready` again.
    void notify() noexcept {
        calls_.fetch_add(1, std::memory_order_release);
        calls_.notify_all();
    }

private:
    std::mutex            mutex_;
    std::atomic<unsigned> calls_{0}; ///< number of calls of `notify`
};

} // namespace detail
} // namespace vram
