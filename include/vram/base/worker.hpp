// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `worker` is a host thread that is always joined.

#include <thread>  // thread
#include <utility> // forward, move

namespace vram {

/// A thread for a platform where time is real. It joins when it is destroyed or assigned to; how it
/// is told to end is its owner's to say (a stop token, a flag behind a gate).
///
///     worker w{device, [&] { ... }};
///
/// An exception that leaves the callable ends the program, as for `std::thread`: owners catch their
/// own.
class worker {
public:
    worker() = default;

    /// Starts `body()` on a new thread. `device` is what the platform's own thread would make
    /// current first; here there is nothing to set.
    template <class Device, class Body>
    worker(Device const&, Body&& body) : thread_{std::forward<Body>(body)} {}

    worker(worker&&) = default;
    worker& operator=(worker&& other) noexcept {
        join();
        thread_ = std::move(other.thread_);
        return *this;
    }
    ~worker() { join(); }

    /// Waits until the thread has ended. A second call does nothing.
    void join() noexcept {
        if (thread_.joinable()) { thread_.join(); }
    }

private:
    std::thread thread_;
};

} // namespace vram
