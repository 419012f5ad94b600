// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `worker` is a host thread that joins on destruction.

#include <vram/base/requirements.hpp> // C++20

#include <thread>  // thread
#include <utility> // forward, move

namespace vram {

/// The host thread type of platforms with real time. The destructor and the assignment join the
/// thread. The owner makes the callable return, for example through a stop token.
///
///     worker w{device, [&] { ... }};
///
/// Failure   If the callable throws, the program ends, as with `std::thread`.
class worker {
public:
    worker() = default;

    /// Starts `body()` on a new thread. The device is ignored: this platform has no current device.
    template <class Device, class Body>
    worker(Device const&, Body&& body) : thread_{std::forward<Body>(body)} {}

    worker(worker&&) = default;
    worker& operator=(worker&& other) noexcept {
        join();
        thread_ = std::move(other.thread_);
        return *this;
    }
    ~worker() { join(); }

    /// Waits for the end of the thread. A second call does nothing. A thread that ends the process
    /// destroys static objects, its own worker among them: it does not wait for itself.
    void join() noexcept {
        if (!thread_.joinable()) { return; }
        if (thread_.get_id() == std::this_thread::get_id()) { return thread_.detach(); }
        thread_.join();
    }

private:
    std::thread thread_;
};

} // namespace vram
