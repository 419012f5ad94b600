// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `signal_writer` runs functions on a thread of its own when the process receives a signal.

#include <vram/source/core/posix_thread.hpp> // posix_thread

#if __has_include(<semaphore.h>)

#include <cerrno>       // errno
#include <csignal>      // sigaction, raise
#include <functional>   // function
#include <mutex>        // mutex, lock_guard
#include <semaphore.h>  // sem_t
#include <system_error> // system_error
#include <time.h>       // nanosleep
#include <utility>      // pair, move
#include <vector>       // vector

#include <atomic> // atomic

namespace vram {
namespace detail {

/// Calls functions for signals. The handler of a signal may call almost nothing, so it wakes a
/// thread, which calls them. If the signal ends a process (SIGINT, SIGTERM, SIGABRT, SIGSEGV, ...),
/// the handler waits for the thread for at most ten seconds, and then raises the signal again with
/// the handler that was installed before.
///
/// Failure   `add` throws `std::system_error` if the signal has no handler (SIGKILL), and
///           `std::bad_alloc`.
/// Threads   Any thread may call. The first call starts the thread, which runs until the end of the
///           process.
class signal_writer {
public:
    static void add(int signal, std::function<void()> work) {
        signal_writer&        all = only();
        std::lock_guard const held{all.mutex_};
        if (signal <= 0 || signal >= most) { fail(EINVAL); }
        all.works_.emplace_back(signal, std::move(work));
        if (all.installed_[signal]) { return; }
        struct sigaction action = {};
        action.sa_handler       = &handle;
        action.sa_flags         = SA_RESTART;
        sigemptyset(&action.sa_mask);
        if (::sigaction(signal, &action, &all.before_[signal]) != 0) {
            int const why = errno;
            all.works_.pop_back();
            fail(why);
        }
        all.installed_[signal] = true;
    }

private:
    static constexpr int most = 65;

    signal_writer() {
        if (::sem_init(&wake_, 0, 0) != 0) { fail(errno); }
        sigset_t all;
        sigset_t before;
        sigfillset(&all); // The new thread inherits this mask, so it handles no signal.
        ::pthread_sigmask(SIG_SETMASK, &all, &before);
        try {
            thread_ = posix_thread{[this] { run(); }};
        } catch (...) {
            ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
            throw;
        }
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        self_.store(this, std::memory_order_release);
    }
    /// The object is never destroyed, because a signal may come until the end of the process.
    static signal_writer& only() {
        static auto* const made = new signal_writer;
        return *made;
    }
    [[noreturn]] static void fail(int why) {
        throw std::system_error{why, std::generic_category(), "vram: a handler of a signal"};
    }

    [[nodiscard]] static bool ends_the_process(int signal) noexcept {
        switch (signal) {
        case SIGINT:
        case SIGTERM:
        case SIGQUIT:
        case SIGABRT:
        case SIGSEGV:
        case SIGBUS:
        case SIGILL:
        case SIGFPE: return true;
        default: return false;
        }
    }
    static void handle(int signal) {
        int const            saved = errno;
        signal_writer* const all   = self_.load(std::memory_order_acquire);
        unsigned const       turn  = all->done_[signal].load();
        all->wanted_[signal].store(true);
        ::sem_post(&all->wake_);
        if (ends_the_process(signal)) {
            timespec const a_little{0, 1'000'000};
            for (int i = 0; i < 10'000 && all->done_[signal].load() == turn; ++i) {
                ::nanosleep(&a_little, nullptr);
            }
            ::sigaction(signal, &all->before_[signal], nullptr);
            ::raise(signal);
        }
        errno = saved;
    }
    void run() {
        for (;;) {
            while (::sem_wait(&wake_) != 0) {}
            for (int signal = 1; signal != most; ++signal) {
                if (!wanted_[signal].exchange(false)) { continue; }
                std::vector<std::function<void()>> works;
                {
                    std::lock_guard const held{mutex_};
                    for (auto const& [of, work] : works_) {
                        if (of == signal) { works.push_back(work); }
                    }
                }
                for (auto const& work : works) { work(); }
                done_[signal].fetch_add(1);
            }
        }
    }

    static inline constinit std::atomic<signal_writer*> self_{nullptr};

    std::mutex                                         mutex_;
    std::vector<std::pair<int, std::function<void()>>> works_;
    bool                                               installed_[most] = {};
    struct sigaction                                   before_[most]    = {};
    std::atomic<bool>                                  wanted_[most]    = {};
    std::atomic<unsigned>                              done_[most]      = {};
    sem_t                                              wake_;
    posix_thread                                       thread_;
};

} // namespace detail
} // namespace vram

#endif
