// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/signal_writer.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <system_error>
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
