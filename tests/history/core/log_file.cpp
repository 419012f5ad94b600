// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/log_file.hpp> // first: the header stands alone

#include "../../doubles/mishaps.hpp"
#include "../recorded.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using vram::file_error;
using vram::detail::log_file;

TEST_CASE("log_file: lines longer than the mapped part, and the exact size at the end") {
    recorded_history::file_name const name{"lines"};
    std::string const                 large(3 << 20, 'x');
    {
        log_file log{name.path(), "head\n", 0, 0};
        log.append("a\n");
        log.append(large + "\n");
        log.append("b\n");
    }
    CHECK(name.contents() == "head\na\n" + large + "\nb\n");
}

TEST_CASE("log_file: no line is lost if the process is killed") {
    recorded_history::file_name const name{"killed"};
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        log_file log{name.path(), "head\n", 0, 0};
        for (int i = 0; i != 1000; ++i) { log.append(std::to_string(i) + "\n"); }
        ::raise(SIGKILL);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    std::string text = name.contents();
    CHECK(text.starts_with("head\n0\n1\n2\n"));
    auto const last = text.find("\n999\n");
    REQUIRE(last != text.npos);
    CHECK(text.find_first_not_of('\n', last + 5) == text.npos); // empty lines
}

TEST_CASE("log_file: a forked child that destroys the log leaves the parent's file as it is") {
    recorded_history::file_name const name{"forked"};
    std::fflush(nullptr);
    pid_t const parent = ::fork(); // a process of its own, because a shortened file would end it
    if (parent == 0) {
        bool right = true;
        {
            log_file    log{name.path(), "head\n", 0, 0};
            pid_t const child = ::fork();
            if (child == 0) {
                log.append("a line of the child\n");
                bool const lost = log.lost() == 1;
                log.~log_file();
                ::_exit(lost ? 0 : 1);
            }
            int status = 0;
            ::waitpid(child, &status, 0);
            right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            log.append("a line of the parent\n");
            right = right && log.lost() == 0;
            try {
                log_file const second{name.path(), "", 0, 0};
                right = false; // the file must still be locked
            } catch (file_error const&) {}
        }
        ::_exit(right ? 0 : 1);
    }
    int status = 0;
    ::waitpid(parent, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
    CHECK(name.contents() == "head\na line of the parent\n");
}

TEST_CASE("log_file: a file of the largest size is renamed, and the oldest one is replaced") {
    recorded_history::file_name const name{"rotated"};
    {
        log_file log{name.path(), "head\n", 25, 2};
        for (int i = 0; i != 10; ++i) { log.append("line " + std::to_string(i) + "\n"); }
    }
    CHECK(name.contents() == "head\nline 8\nline 9\n");
    recorded_history::file_name const first{"rotated.1"};
    recorded_history::file_name const second{"rotated.2"};
    CHECK(first.contents() == "head\nline 6\nline 7\n");
    CHECK(second.contents() == "head\nline 4\nline 5\n");
    CHECK_FALSE(std::filesystem::exists(name.path() + ".3"));
}

TEST_CASE("log_file: any number of older files may be kept") {
    recorded_history::file_name const name{"all"};
    recorded_history::file_name const first{"all.1"};
    recorded_history::file_name const second{"all.2"};
    {
        log_file log{name.path(), "head\n", 12, ~0U};
        for (int i = 0; i != 3; ++i) { log.append("line " + std::to_string(i) + "\n"); }
        CHECK(log.lost() == 0);
    }
    CHECK(name.contents() == "head\nline 2\n");
    CHECK(first.contents() == "head\nline 1\n");
    CHECK(second.contents() == "head\nline 0\n");
}

TEST_CASE("log_file: a change of the working directory does not move the log") {
    recorded_history::file_name const name{"relative"};
    recorded_history::file_name const first{"relative.1"};
    std::filesystem::path const       before = std::filesystem::current_path();
    std::filesystem::path const       path{name.path()};
    std::filesystem::current_path(path.parent_path());
    {
        log_file log{path.filename().string(), "head\n", 12, 1};
        log.append("line 0\n");
        std::filesystem::current_path("/");
        log.append("line 1\n"); // renames the first file
        CHECK(log.lost() == 0);
    }
    std::filesystem::current_path(before);
    CHECK(name.contents() == "head\nline 1\n");
    CHECK(first.contents() == "head\nline 0\n");
}

TEST_CASE("log_file: a file that cannot be renamed keeps its lines") {
    recorded_history::file_name const name{"kept"};
    recorded_history::file_name const first{"kept.1"};
    std::filesystem::create_directory(first.path());
    doubles::mishaps const errors;
    {
        log_file log{name.path(), "head\n", 12, 1};
        for (int i = 0; i != 3; ++i) { log.append("line " + std::to_string(i) + "\n"); }
        CHECK(log.lost() == 2);
    }
    CHECK(errors.count(vram::error_kind::lost_exception) == 1);
    CHECK(name.contents() == "head\nline 0\n");
}

TEST_CASE("log_file: a second log of one path is an error, and the first one keeps its lines") {
    recorded_history::file_name const name{"two"};
    {
        log_file log{name.path(), "head\n", 12, 0};
        log.append("line 0\n");
        CHECK_THROWS_AS((log_file{name.path(), "", 0, 0}), file_error);
        CHECK(name.contents().starts_with("head\nline 0\n"));
        log.append("line 1\n"); // begins the file again
        CHECK(log.lost() == 0);
    }
    CHECK(name.contents() == "head\nline 1\n");
    { log_file const again{name.path(), "again\n", 0, 0}; }
    CHECK(name.contents() == "again\n");
}

TEST_CASE("log_file: a full disk is reported once, and the program continues") {
    recorded_history::file_name const name{"full"};
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        rlimit const limit{1 << 20, 1 << 20};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        doubles::mishaps const errors;
        log_file               log{name.path(), "head\n", 0, 0};
        std::string const      line(9999, 'x');
        for (int i = 0; i != 200; ++i) { log.append(line + "\n"); }
        bool const right = errors.count(vram::error_kind::lost_exception) == 1 &&
                           errors.count() == 1 && log.lost() > 80 && log.lost() < 100;
        ::_exit(right ? 7 : 1); // The log was closed after the error.
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7);
    CHECK(name.contents().size() > 900'000);
    CHECK(name.contents().ends_with("x\n"));
    CHECK((name.contents().size() - 5) % 10'000 == 0);
    CHECK_THROWS_AS((log_file{"/no/such/folder/log", "", 0, 0}), file_error);
}

TEST_CASE("log_file: devices are written directly") {
    log_file nothing{"/dev/null", "head\n", 1, 1};
    nothing.append("line\n");
    CHECK(nothing.lost() == 0);
    CHECK_THROWS_AS((log_file{"/dev/full", "head\n", 0, 0}), file_error);
    doubles::mishaps const errors;
    log_file               full{"/dev/full", "", 0, 0};
    full.append("line\n");
    full.append("line\n");
    CHECK(full.lost() == 2);
    CHECK(errors.count() == 1);
}
