// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `posix_thread` is a host thread that joins on destruction, for code that needs POSIX anyway.

#include <vram/base/tag.hpp> // memory_tag, current_tag, tagged

#if __has_include(<pthread.h>)

#include <pthread.h> // pthread_create, pthread_join

#include <system_error> // system_error
#include <type_traits>  // decay_t
#include <utility>

namespace vram {
namespace detail {

/// A host thread that joins on destruction. Unlike `worker`, it does not include `<thread>`, which
/// is slow to compile.
///
///     posix_thread t{[&] { ... }};
///
/// Failure   The constructor throws `std::system_error` or `std::bad_alloc`. If the callable
///           throws, the program ends.
class posix_thread {
public:
    posix_thread() = default;

    /// Starts a thread that calls `body()`. The new thread begins with the tag that the calling
    /// thread has now (the name of the purpose of its allocations, see `tagged`).
    template <class Body>
    explicit posix_thread(Body&& body) {
        using work     = work_of<std::decay_t<Body>>;
        auto*     its  = new work{std::forward<Body>(body), current_tag()};
        int const code = ::pthread_create(&thread_, nullptr, &run<work>, its);
        if (code != 0) {
            delete its;
            throw std::system_error{code, std::generic_category(), "vram: pthread_create"};
        }
        joinable_ = true;
    }

    posix_thread(posix_thread&& other) noexcept
        : thread_{other.thread_}, joinable_{std::exchange(other.joinable_, false)} {}
    posix_thread& operator=(posix_thread&& other) noexcept {
        join();
        thread_   = other.thread_;
        joinable_ = std::exchange(other.joinable_, false);
        return *this;
    }
    ~posix_thread() { join(); }

    /// Waits for the end of the thread. If the thread itself calls `join()`, the thread is detached
    /// instead.
    void join() noexcept {
        if (!std::exchange(joinable_, false)) { return; }
        if (::pthread_equal(thread_, ::pthread_self()) != 0) {
            ::pthread_detach(thread_);
        } else {
            ::pthread_join(thread_, nullptr);
        }
    }

private:
    template <class Body>
    struct work_of {
        Body       body;
        memory_tag from;

        void run() {
            tagged const scope{from};
            body();
        }
    };

    template <class Work>
    static void* run(void* work) {
        struct owner { // deletes `its` when the thread ends, also if it ends by `pthread_exit`
            Work* its;
            ~owner() { delete its; }
        } const held{static_cast<Work*>(work)};
        held.its->run();
        return nullptr;
    }

    pthread_t thread_{};
    bool      joinable_ = false;
};

} // namespace detail
} // namespace vram

#endif
