// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `worker` is a host thread that joins on destruction.

#include <vram/base/tag.hpp> // current_tag, tagged

#include <thread> // thread
#include <utility>

namespace vram {
namespace detail {

/// A host thread, for platforms that run in real time. The destructor and the assignment wait until
/// the callable has returned; the owner must make the callable return before that, for example by a
/// stop token. A thread that destroys its own `worker` is detached instead.
///
///     worker w{device, [&] { ... }};
///
/// Failure   The constructor throws `std::system_error` if no thread can be started. If the
///           callable throws, the program ends, as with `std::thread`.
class worker {
public:
    worker() = default;

    /// Starts `body()` on a new thread. The first argument is the thread's current device on other
    /// platforms; this class ignores it. The thread begins with the tag of its creator.
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

    /// Waits for the end of the thread; a second call does nothing. If the thread itself calls this
    /// function, because it called `exit` and so destroys its own `worker`, it is detached instead.
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
