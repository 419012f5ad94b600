// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `meeting` is a mutex with a condition for waits without a time limit.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <mutex>  // mutex, unique_lock

namespace vram {
namespace detail {

/// A mutex with a condition: one thread changes data under the mutex and calls `notify`. Another
/// thread waits until the data has the expected value. Unlike `gate`, this class does not need
/// `<condition_variable>`, which is slow to compile.
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
            // Reads `calls_` before it calls `ready()`. If another thread calls `notify` after this
            // read, `calls_` is no longer `seen`, so `calls_.wait` returns at once.
            unsigned const seen = calls_.load(std::memory_order_acquire);
            if (ready()) { return; }
            held.unlock();
            calls_.wait(seen, std::memory_order_acquire);
            held.lock();
        }
    }

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
