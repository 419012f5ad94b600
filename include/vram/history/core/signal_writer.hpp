// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `signal_writer` runs functions on a thread of its own when the process receives a signal.

#include <vram/source/core/posix_thread.hpp>

#if __has_include(<semaphore.h>)

#include <cerrno>  // errno
#include <csignal> // sigaction, raise
#include <cstdint>
#include <functional>   // function
#include <mutex>        // mutex, lock_guard
#include <semaphore.h>  // sem_t
#include <system_error> // system_error
#include <time.h>       // nanosleep
#include <unistd.h>     // getpid
#include <utility>
#include <vector> // vector

#include <atomic> // atomic

namespace vram {
namespace detail {

/// Calls functions on a thread when the process receives a signal, because a signal handler may
/// call almost nothing. For most signals that by default end or stop the process, the handler waits
/// for the functions, up to about ten seconds. Then it calls the handler that was installed before,
/// if there was one.
class signal_writer {
public:
    static void add(int signal, std::function<void()> work) {
        signal_writer&        all = only();
        std::lock_guard const held{all.mutex_};
        if (signal <= 0 || signal >= most) { fail(EINVAL); }
        all.works_.emplace_back(signal, std::move(work));
        if (all.installed_[signal]) { return; }
        struct sigaction& before = all.before_[signal];
        struct sigaction  action = {};
        bool              done   = ::sigaction(signal, nullptr, &before) == 0;
        if (done) {
            sigemptyset(&action.sa_mask);
            action.sa_flags = SA_RESTART;
            if (has_handler(before)) {
                // `handle` calls the earlier handler, which must run with the mask and on the stack
                // that the program chose for it. Takes over the mask and the flags of this handler.
                action.sa_mask  = before.sa_mask;
                action.sa_flags = before.sa_flags & ~SA_RESETHAND;
            }
            action.sa_flags |= SA_SIGINFO;
            action.sa_sigaction = &handle;
            done                = ::sigaction(signal, &action, nullptr) == 0;
        }
        if (!done) {
            int const why = errno;
            all.works_.pop_back();
            fail(why);
        }
        all.installed_[signal] = true;
    }

private:
    static constexpr int most = 65;

    /// Makes the object of this process. `parent` is that of the parent process, or null. The
    /// handlers that the parent has installed are installed in this process, too.
    explicit signal_writer(signal_writer const* parent) {
        if (parent != nullptr) {
            for (int signal = 1; signal != most; ++signal) {
                installed_[signal] = parent->installed_[signal];
                before_[signal]    = parent->before_[signal];
            }
        }
        if (::sem_init(&wake_, 0, 0) != 0) { fail(errno); }
        sigset_t all;
        sigset_t before;
        sigfillset(&all); // the new thread inherits this mask, so it runs no signal handler
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
    /// Returns the object of this process. A forked child has no thread of its parent, so that it
    /// gets an object of its own. An object is never destroyed, because a signal may come until the
    /// end of the process.
    static signal_writer& only() {
        static std::mutex     making;
        std::lock_guard const held{making};
        signal_writer* const  known = self_.load(std::memory_order_acquire);
        if (known != nullptr && known->process_ == ::getpid()) { return *known; }
        return *new signal_writer{known};
    }
    [[noreturn]] static void fail(int why) {
        throw std::system_error{why, std::generic_category(), "vram: a handler of a signal"};
    }

    /// Returns true if the default action of the signal ends the process, except for SIGUSR1,
    /// SIGUSR2 and real-time signals. Programs send these only to call the functions of `add`.
    [[nodiscard]] static bool ends_the_process(int signal) noexcept {
        switch (signal) {
        case SIGUSR1:
        case SIGUSR2:
        case SIGCHLD:
        case SIGCONT:
        case SIGTSTP:
        case SIGTTIN:
        case SIGTTOU:
        case SIGURG:
        case SIGWINCH: return false;
        default: return signal < 32; // real-time signals are those from 32 on
        }
    }
    /// Returns true if the default action of the signal stops the process until SIGCONT arrives.
    [[nodiscard]] static bool stops_the_process(int signal) noexcept {
        return signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    }
    /// Returns true if the system sends the signal for a failed instruction, such as an access to
    /// an invalid address.
    [[nodiscard]] static bool is_fault(int signal) noexcept {
        return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
    }
    [[nodiscard]] static bool has_handler(struct sigaction const& of) noexcept {
        return (of.sa_flags & SA_SIGINFO) != 0 ||
               (of.sa_handler != SIG_DFL && of.sa_handler != SIG_IGN);
    }
    static void handle(int signal, siginfo_t* about, void* context) {
        int const            saved = errno;
        signal_writer* const all   = self_.load(std::memory_order_acquire);
        if (::getpid() == all->process_) { all->write(signal); }
        errno = saved;
        all->call_earlier(signal, about, context);
        errno = saved;
    }
    /// Wakes the thread that calls the functions. If `ends_the_process` or `stops_the_process`,
    /// waits until they have returned, but not longer than about 10 s.
    void write(int signal) noexcept {
        std::uint64_t const request = wanted_[signal].fetch_add(1) + 1;
        ::sem_post(&wake_);
        if (!ends_the_process(signal) && !stops_the_process(signal)) { return; }
        timespec const a_little{0, 1'000'000};
        for (int i = 0; i < 10'000 && done_[signal].load() < request; ++i) {
            ::nanosleep(&a_little, nullptr);
        }
    }
    void call_earlier(int signal, siginfo_t* about, void* context) {
        struct sigaction& before  = before_[signal];
        struct sigaction  earlier = before;
        if (has_handler(earlier)) {
            // `SA_RESETHAND`: the earlier handler is called only once. From the next signal on, the
            // default action takes its place.
            if ((earlier.sa_flags & SA_RESETHAND) != 0) {
                before            = {};
                before.sa_handler = SIG_DFL;
            }
            if ((earlier.sa_flags & SA_SIGINFO) != 0) {
                return earlier.sa_sigaction(signal, about, context);
            }
            return earlier.sa_handler(signal);
        }
        bool const ignored = earlier.sa_handler == SIG_IGN;
        if (ignored ? is_fault(signal) : ends_the_process(signal)) {
            ::sigaction(signal, &earlier, nullptr);
            ::raise(signal);
        }
        if (!ignored && stops_the_process(signal)) { stop(signal, earlier); }
    }
    /// Stops the process by the default action of the signal, `standard`. Returns, with the handler
    /// installed again, after SIGCONT.
    static void stop(int signal, struct sigaction const& standard) noexcept {
        struct sigaction ours = {};
        ::sigaction(signal, &standard, &ours);
        ::raise(signal); // stays pending, because the signal is blocked while its handler runs
        sigset_t only;
        sigset_t before;
        sigemptyset(&only);
        sigaddset(&only, signal);
        ::pthread_sigmask(SIG_UNBLOCK, &only, &before); // delivers the signal: the process stops
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        // Installs vram's handler again. If several threads run `stop`, only the thread that has
        // removed the handler installs it.
        if (has_handler(ours)) { ::sigaction(signal, &ours, nullptr); }
    }
    void run() {
        for (;;) {
            while (::sem_wait(&wake_) != 0) {}
            for (int signal = 1; signal != most; ++signal) {
                std::uint64_t const request = wanted_[signal].load();
                if (request == done_[signal].load()) { continue; }
                call_functions(signal);
                done_[signal].store(request);
            }
        }
    }

    void call_functions(int arrived) {
        std::vector<std::function<void()>> works;
        {
            std::lock_guard const held{mutex_};
            for (auto const& [signal, work] : works_) {
                if (signal == arrived) { works.push_back(work); }
            }
        }
        for (auto const& work : works) { work(); }
    }

    static inline constinit std::atomic<signal_writer*> self_{nullptr};

    std::mutex                                         mutex_;
    std::vector<std::pair<int, std::function<void()>>> works_;
    bool                                               installed_[most] = {};
    struct sigaction                                   before_[most]    = {};
    pid_t                                              process_         = ::getpid();
    /// `wanted_[s]`: number of arrivals of the signal `s`. `done_[s]`: number of these arrivals for
    /// which all functions that `add` registered have returned.
    std::atomic<std::uint64_t> wanted_[most] = {};
    std::atomic<std::uint64_t> done_[most]   = {};
    sem_t                      wake_;
    posix_thread               thread_;
};

} // namespace detail
} // namespace vram

#endif
