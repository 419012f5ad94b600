// SPDX-License-Identifier: Apache-2.0
#include <vram/history/history_trigger.hpp> // first: the header stands alone

#include "../doubles/mishaps.hpp"
#include "recorded.hpp"

#include <vram/history/history_columns.hpp>
#include <vram/history/read_history.hpp>

#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

using namespace vram;

namespace {
/// Runs `body` in a child process and returns its status.
template <class Body>
int status_of_child(Body const& body) {
    std::fflush(nullptr); // the child would write it again
    pid_t const child = ::fork();
    if (child == 0) {
        body();
        ::_exit(99);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}
void note(history& log, char const* text) {
    log.observe(memory_event<sim_stream_view>{.kind = memory_event_kind::marked, .name = text});
}
} // namespace

TEST_CASE("history_trigger: a file is written when exit is called, after the history has ended") {
    recorded_history::file_name const file{"exit"};
    int const                         status = status_of_child([&] {
        {
            history log;
            note(log, "a mark");
            history_trigger{log, file.path(), history_columns}.at_exit();
        }
        std::exit(0);
    });
    CHECK(WIFEXITED(status));
    REQUIRE(file.exists());
    history_record const read = read_history(file.path());
    REQUIRE(read.events.size() == 1);
    CHECK(read.resources[read.events[0].resource].name == "a mark");
}

TEST_CASE("history_trigger: a forked child writes no file of its parent, but those of its own") {
    recorded_history::file_name const parents{"of-the-parent"};
    recorded_history::file_name const childs{"of-the-child"};
    int const                         status = status_of_child([&] {
        history log;
        history_trigger{log, parents.path(), history_columns}.at_exit().on_refusal();
        int const exits = status_of_child([&] {
            history_trigger{log, childs.path(), history_columns}.at_exit();
            log.observe(memory_event<sim_stream_view>{.kind = memory_event_kind::refused});
            std::exit(0);
        });
        ::_exit(WIFEXITED(exits) && WEXITSTATUS(exits) == 0 ? 0 : 1);
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK_FALSE(parents.exists());
    CHECK(childs.exists());
}

TEST_CASE("history_trigger: a signal writes, and the process continues or ends as before") {
    recorded_history::file_name const file{"signal"};
    int const                         status = status_of_child([&] {
        history log;
        std::signal(SIGTERM, SIG_DFL); // instead of the handler of doctest
        note(log, "before");
        history_trigger{log, file.path(), history_columns}.on_signal(SIGUSR1).on_signal(SIGTERM);
        ::raise(SIGUSR1);
        for (int i = 0; i != 2000 && !file.exists(); ++i) { ::usleep(1000); }
        if (!file.exists()) { ::_exit(1); }
        note(log, "after");
        ::raise(SIGTERM);
    });
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGTERM);
    REQUIRE(file.exists());
    CHECK(read_history(file.path()).events.size() == 2);
}

#if defined(VRAM_TESTS_TSAN)
constexpr bool starts_threads_after_fork = false;
#else
constexpr bool starts_threads_after_fork = true;
#endif

TEST_CASE(
    "history_trigger: a forked child writes its own file when a signal arrives" *
    doctest::skip(!starts_threads_after_fork) *
    doctest::description("ThreadSanitizer allows no thread in a child of a process with threads")) {
    recorded_history::file_name const parents{"of-the-parent"};
    recorded_history::file_name const childs{"of-the-child"};
    int const                         status = status_of_child([&] {
        history log;
        std::signal(SIGTERM, SIG_DFL);
        std::signal(SIGHUP, [](int) {});
        history_trigger{log, parents.path(), history_columns}.on_signal(SIGTERM).on_signal(SIGHUP);
        // Waits until the thread of the trigger has started. A child that is forked while another
        // thread starts finds locks of AddressSanitizer taken.
        ::raise(SIGHUP);
        bool const started = std::remove(parents.path().c_str()) == 0;
        int const  ended   = status_of_child([&] {
            history_trigger{log, childs.path(), history_columns}.on_signal(SIGTERM);
            ::raise(SIGTERM);
        });
        ::_exit(started && WIFSIGNALED(ended) && WTERMSIG(ended) == SIGTERM ? 0 : 1);
    });
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK_FALSE(parents.exists());
    CHECK(childs.exists());
}

TEST_CASE("history_trigger: SIGKILL cannot be a trigger") {
    history const log;
    CHECK_THROWS_AS(history_trigger(log, "unused", history_columns).on_signal(0),
                    std::system_error);
}

TEST_CASE("history_trigger: a refusal writes once, and an error is reported") {
    sim_node const                    node{{.capacity = 1_MiB}};
    sim_stream                        s;
    recorded_history::file_name const file{"refusal"};
    history                           log;
    pool memory{observed{stream_ordered{sim_resource{}}, std::ref(log)}};
    CHECK(memory.try_allocate(s, 2_MiB) == nullptr);
    CHECK_FALSE(file.exists());
    history_trigger{log, file.path(), history_columns}.on_refusal();
    CHECK(memory.try_allocate(s, 2_MiB) == nullptr);
    REQUIRE(file.exists());
    CHECK(read_history(file.path()).events.back().bytes == 2_MiB);
    CHECK(read_history(file.path()).events.back().kind == memory_event_kind::refused);

    doubles::mishaps const errors;
    history                other;
    history_trigger{other, "/no/such/folder/x", history_columns}.on_refusal();
    other.observe(memory_event<sim_stream_view>{.kind = memory_event_kind::refused});
    CHECK(errors.count(error_kind::lost_exception) == 1);
}
