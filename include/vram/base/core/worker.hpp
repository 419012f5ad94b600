// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `worker` is a host thread that joins on destruction.

#include <vram/base/tag.hpp> // current_tag, tagged

#include <thread> // thread
#include <utility>

namespace vram {
namespace detail {

/// A host thread, for platforms without simulated time. The destructor of this object, and an
/// assignment to it, wait until the callable returns. Make the callable return first, such as by a
/// stop token. On the thread itself, the destructor and the assignment detach the thread and do not
/// wait.
///
///     worker w{device, [&] { ... }};
///
/// Failure   The constructor throws `std::system_error` if no thread can be started.
class worker {
public:
    worker() = default;

    /// Starts `body()` on a new thread, which begins with the tag of the calling thread
    /// (`current_tag`). The device is ignored; it makes the parameters those of `sim_thread`.
    template <class Device, class Body>
    worker(Device const&, Body&& body)
        : thread_{[from = current_tag(), run = std::forward<Body>(body)]() mutable {
              tagged const scope{from};
              run();
          }} {}

    worker(worker&&) = default;
    worker& operator=(worker&& other) noexcept {
        join();
        thread_ = std::move(other.thread_);
        return *this;
    }
    ~worker() { join(); }

    /// Waits for the end of the thread. Called on the thread itself, detaches it instead.
    void join() noexcept {
        if (!thread_.joinable()) { return; }
        if (thread_.get_id() == std::this_thread::get_id()) { return thread_.detach(); }
        thread_.join();
    }

private:
    std::thread thread_;
};

} // namespace detail
} // namespace vram
