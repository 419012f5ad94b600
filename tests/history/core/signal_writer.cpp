// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/signal_writer.hpp> // first: the header stands alone

#include "../../laws/effort.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

using vram::detail::signal_writer;

TEST_CASE("signal_writer: the thread calls each function of the signal, and the process goes on") {
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        std::atomic<int> calls{0};
        signal_writer::add(SIGUSR2, [&] { ++calls; });
        signal_writer::add(SIGUSR2, [&] { calls += 10; });
        signal_writer::add(SIGHUP, [&] { calls += 100; });
        ::raise(SIGUSR2);
        for (int i = 0; i != 5000 && calls != 11; ++i) { ::usleep(1000); }
        ::_exit(calls == 11 ? 7 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
}

namespace {
std::atomic<int> written{0};
volatile int     earlier_calls = 0;
void             earlier(int) { earlier_calls = earlier_calls + 1; }
/// Returns the status of a child with the handler `before`, which adds a function for the signal,
/// and then runs `body`.
template <class Body>
int status_of(int signal, void (*before)(int), int flags, Body const& body) {
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        struct sigaction action = {};
        action.sa_handler       = before;
        action.sa_flags         = flags;
        ::sigaction(signal, &action, nullptr);
        signal_writer::add(signal, [] { ++written; });
        ::_exit(body());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}
} // namespace

TEST_CASE("signal_writer: a signal that ends a process without a handler still ends it") {
    for (int const signal : {SIGTERM, SIGHUP, SIGALRM, SIGPIPE, SIGXCPU}) {
        int const status = status_of(signal, SIG_DFL, 0, [&] { return ::raise(signal); });
        CHECK(WIFSIGNALED(status));
        CHECK(WTERMSIG(status) == signal);
    }
    int const status = status_of(SIGCHLD, SIG_DFL, 0, [] { return ::raise(SIGCHLD); });
    CHECK(WIFEXITED(status));
}

TEST_CASE("signal_writer: the earlier handler is called each time, and may return") {
    for (int const signal : {SIGTERM, SIGHUP, SIGUSR1}) {
        int const status = status_of(signal, earlier, 0, [&] {
            for (int i = 1; i != 3; ++i) {
                ::raise(signal);
                for (int wait = 0; wait != 5000 && written != i; ++wait) { ::usleep(1000); }
            }
            return earlier_calls == 2 && written == 2 ? 7 : 1;
        });
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 7);
    }
}

TEST_CASE("signal_writer: an earlier handler that is called once, and an ignored signal") {
    int status = status_of(SIGHUP, earlier, static_cast<int>(SA_RESETHAND), [] {
        ::raise(SIGHUP);
        if (earlier_calls == 1) { ::raise(SIGHUP); }
        return 1;
    });
    CHECK(WIFSIGNALED(status));
    status = status_of(SIGHUP, SIG_IGN, 0, [] {
        ::raise(SIGHUP);
        return written == 1 ? 7 : 1;
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("signal_writer: a signal that stops a process still stops it, each time") {
    for (int const signal : {SIGTSTP, SIGTTIN, SIGTTOU}) {
        CAPTURE(signal);
        std::fflush(nullptr);
        pid_t const child = ::fork();
        if (child == 0) {
            // The system stops no process of a group without a parent in another one.
            ::setpgid(0, 0);
            struct sigaction action = {};
            action.sa_handler       = SIG_DFL;
            ::sigaction(signal, &action, nullptr);
            signal_writer::add(signal, [] { ++written; });
            for (int i = 0; i != 2; ++i) { ::raise(signal); }
            ::_exit(written == 2 ? 7 : 1);
        }
        int status = 0;
        for (int i = 0; i != 2; ++i) {
            ::waitpid(child, &status, WUNTRACED);
            REQUIRE(WIFSTOPPED(status));
            CHECK(WSTOPSIG(status) == signal);
            ::kill(child, SIGCONT);
        }
        ::waitpid(child, &status, 0);
        CHECK(WIFEXITED(status));
        CHECK(WEXITSTATUS(status) == 7);
    }
}

TEST_CASE("signal_writer: a signal during a run of its functions waits for the next run") {
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        struct sigaction action = {};
        action.sa_handler       = [](int) {};
        ::sigaction(SIGHUP, &action, nullptr);
        std::atomic<int>  begun{0};
        std::atomic<int>  ended{0};
        std::atomic<bool> may_end{false};
        signal_writer::add(SIGHUP, [&] {
            ++begun;
            while (!may_end) { ::usleep(1000); }
            ::usleep(100'000);
            ++ended;
        });
        std::thread first{[] { ::raise(SIGHUP); }};
        while (begun != 1) { ::usleep(1000); }
        int         seen = 0;
        std::thread second{[&] {
            ::raise(SIGHUP);
            seen = ended;
        }};
        ::usleep(100'000); // so that the second signal arrives before the first run ends
        may_end = true;
        second.join();
        first.join();
        ::_exit(seen == 2 ? 7 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
}

#if defined(VRAM_TESTS_TSAN)
constexpr bool delivers_signals_after_fork = false;
#else
constexpr bool delivers_signals_after_fork = true;
#endif

TEST_CASE("signal_writer: a forked process does not wait for the thread" *
          doctest::skip(!delivers_signals_after_fork) *
          doctest::description("ThreadSanitizer delays signals in a process forked from threads")) {
    int const status = status_of(SIGTERM, SIG_DFL, 0, [] {
        pid_t const child = ::fork();
        if (child == 0) {
            struct sigaction action = {};
            action.sa_handler       = SIG_DFL;
            ::sigaction(SIGALRM, &action, nullptr);
            ::alarm(5);
            ::raise(SIGTERM);
            ::_exit(1);
        }
        int of_child = 0;
        ::waitpid(child, &of_child, 0);
        return WIFSIGNALED(of_child) && WTERMSIG(of_child) == SIGTERM ? 7 : 1;
    });
    CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("signal_writer: a signal without a handler is an error") {
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        int errors = 0;
        for (int const signal : {0, 1000, SIGKILL}) {
            try {
                signal_writer::add(signal, [] {});
            } catch (std::system_error const&) { ++errors; }
        }
        ::_exit(errors);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 3);
}
