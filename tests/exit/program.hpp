// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `program` runs every way to end a process with every kind of object, each in a child process.
///
/// The program starts itself again with two arguments, a way and a kind. A child is right if it
/// exits with 0 and writes nothing to stderr.

#include <vram/base/error.hpp> // set_error_sink

#include <spawn.h>    // posix_spawn
#include <sys/wait.h> // waitpid
#include <unistd.h>   // fork, _exit, alarm

#include <atomic>     // atomic
#include <cstddef>    // size_t
#include <cstdio>     // printf
#include <cstdlib>    // exit, atexit, quick_exit
#include <functional> // function
#include <memory>     // unique_ptr
#include <string>     // string
#include <thread>     // thread
#include <vector>     // vector

extern char** environ;
extern "C" [[gnu::weak]] void
// With coverage, a child that ends early writes its counters.
__gcov_dump();

namespace tests::exits {

/// An object under test, with all that it needs.
struct thing {
    thing()             = default;
    thing(thing const&) = delete;
    virtual ~thing()    = default;
};

/// How to make one kind of object.
struct kind {
    char const* name;
    thing* (*make)();
    bool only_at_exit = false; ///< an error is reported, unless the process ends
    bool tells        = false; ///< an error is reported: results that were not finished
};

/// Owns a thing; in static storage it is destroyed as the thing itself would be.
struct holder {
    explicit holder(kind const& of) : owned{of.make()} {}
    std::unique_ptr<thing> owned;
};

[[noreturn]] inline void leave(int code) {
    if (__gcov_dump != nullptr) { __gcov_dump(); }
    std::fflush(nullptr);
    _exit(code);
}

/// The last handler of the process; returns the result of the check. Registered before all others.
inline int (*check)() = nullptr;
inline void verdict() { leave(check != nullptr ? check() : 0); }

/// Lets a platform observe calls after this.
inline void (*before_exit)() = nullptr;
[[noreturn]] inline void end(int code = 0) {
    if (before_exit != nullptr) { before_exit(); }
    std::exit(code);
}

/// A way to end a process with an object of `of`. Returns if the object ends inside `main`.
struct way {
    char const* name;
    void (*run)(kind const& of);
    bool at_exit = true;  ///< the process ends before the object
    bool tells   = false; ///< the program makes an error that may be reported
    /// The only line that may be reported contains these words; null means no line.
    char const* one_line = nullptr;
};

inline void static_object(kind const& of) {
    static holder const kept{of};
    end();
}
/// Another object watches first: the object under test is destroyed before that one.
inline void static_object_made_later(kind const& of) {
    static holder const first{of};
    static holder const kept{of};
    end();
}
inline void static_object_of_another_thread(kind const& of) {
    std::thread{[&] { static holder const kept{of}; }}.join();
    end();
}
inline void thread_local_object(kind const& of) {
    thread_local holder const kept{of};
    std::exit(0); // the object is destroyed before static objects, while CUDA still exists
}
inline void thread_local_object_of_another_thread(kind const& of) {
    std::thread{[&] { thread_local holder const kept{of}; }}.join();
    end();
}
inline void thread_local_object_of_the_thread_that_exits(kind const& of) {
    std::thread{[&] {
        thread_local holder const kept{of};
        std::exit(0);
    }}.join();
}
inline thing* leaked = nullptr;
inline void   leaked_object(kind const& of) {
    leaked = of.make();
    end();
}
inline void heap_object_deleted_by_atexit(kind const& of) {
    leaked = of.make();
    std::atexit([] { delete leaked; });
    static holder const other{of}; // a second object, which observes the end of the process
    end();
}
inline void static_object_deleted_by_another_thread(kind const& of) {
    leaked = of.make();
    struct deleter {
        ~deleter() {
            std::thread{[] { delete leaked; }}.join();
        }
    };
    static deleter const last;
    end();
}
inline void quick_exit_with_static_object(kind const& of) {
    static holder const kept{of};
    std::quick_exit(check != nullptr ? check() : 0);
}
inline void exit_of_another_thread(kind const& of) {
    static holder const kept{of};
    std::atomic<bool>   started{false};
    std::thread{[&] {
        while (!started) {}
        static holder const later{of};
        end();
    }}.detach();
    started = true;
    for (;;) { pause(); } // other threads keep running, and use nothing that is destroyed
}
inline void exit_of_a_thread_that_made_nothing(kind const& of) {
    std::thread{[&] { static holder const kept{of}; }}.join();
    std::thread{[] { end(); }}.join();
}

/// The exit code of a child of `fork` that runs `body`.
template <class Body>
int forked(Body body) {
    std::fflush(nullptr);
    pid_t const child = ::fork();
    if (child == 0) {
        ::alarm(20); // otherwise it would wait for a thread that does not exist in the child
        body();
        leave(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}
inline void child_exits_with_static_object(kind const& of) {
    static holder const kept{of};
    int const           code = forked([] { end(); });
    if (code != 0) { leave(code); }
    end();
}
inline void child_destroys_local_object(kind const& of) {
    holder    kept{of};
    int const code = forked([&] {
        if (before_exit != nullptr) { before_exit(); }
        kept.owned.reset();
        if (check != nullptr) { leave(check()); }
    });
    if (code != 0) { leave(code); }
}

inline std::vector<way> common_ways() {
    return {
        {"static_object", static_object},
        {"static_object_made_later", static_object_made_later},
        {"static_object_of_another_thread", static_object_of_another_thread},
        {"thread_local_object", thread_local_object, false},
        {"thread_local_object_of_another_thread", thread_local_object_of_another_thread, false},
        {"thread_local_object_of_the_thread_that_exits",
         thread_local_object_of_the_thread_that_exits, false},
        {"leaked_object", leaked_object},
        {"heap_object_deleted_by_atexit", heap_object_deleted_by_atexit},
        {"static_object_deleted_by_another_thread", static_object_deleted_by_another_thread},
        {"quick_exit_with_static_object", quick_exit_with_static_object},
        {"exit_of_another_thread", exit_of_another_thread},
        {"exit_of_a_thread_that_made_nothing", exit_of_a_thread_that_made_nothing},
        {"child_exits_with_static_object", child_exits_with_static_object},
        {"child_destroys_local_object", child_destroys_local_object, false},
    };
}

/// Runs this program with a way and a kind; returns the error, or an empty string.
inline std::string run_child(char const* self, std::string way, std::string kind, bool tells,
                             char const* one_line) {
    int pipe[2];
    if (::pipe(pipe) != 0) { return "no pipe"; }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe[1], 2);
    posix_spawn_file_actions_addclose(&actions, pipe[0]);
    std::string name         = self;
    char*       arguments[4] = {name.data(), way.data(), kind.data(), nullptr};
    pid_t       child        = 0;
    int const   problem      = posix_spawn(&child, self, &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    std::string text;
    char        part[512];
    for (ssize_t n = 0; problem == 0 && (n = ::read(pipe[0], part, sizeof part)) > 0;) {
        text.append(part, static_cast<std::size_t>(n));
    }
    ::close(pipe[0]);
    if (problem != 0) { return "not started"; }
    int status = 0;
    ::waitpid(child, &status, 0);
    bool const one = one_line != nullptr && text.find(one_line) != std::string::npos &&
                     text.find('\n') + 1 == text.size();
    if (tells || one) { text.clear(); }
    if (WIFSIGNALED(status)) { text += "\nsignal " + std::to_string(WTERMSIG(status)); }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
        text += "\nexit code " + std::to_string(WEXITSTATUS(status));
    }
    return text;
}

/// The main function. Without arguments it runs everything; with one argument, the ways or kinds
/// with names that contain it; with two arguments, one child.
inline int main(int argc, char** argv, std::vector<way> const& ways, std::vector<kind> const& kinds,
                bool (*skip)(way const&, kind const&) = nullptr) {
    if (argc == 3) {
        std::atexit(verdict);
        ::alarm(20);
        for (way const& w : ways) {
            for (kind const& k : kinds) {
                if (std::string{argv[1]} != w.name || std::string{argv[2]} != k.name) { continue; }
                w.run(k);
                return 0;
            }
        }
        return 98;
    }
    int passed = 0, failed = 0;
    for (way const& w : ways) {
        for (kind const& k : kinds) {
            std::string const name = std::string{w.name} + " " + k.name;
            if (k.only_at_exit && !w.at_exit) { continue; }
            if (skip != nullptr && skip(w, k)) { continue; }
            if (argc == 2 && name.find(argv[1]) == std::string::npos) { continue; }
            std::string const wrong =
                run_child("/proc/self/exe", w.name, k.name, k.tells || w.tells, w.one_line);
            ++(wrong.empty() ? passed : failed);
            if (!wrong.empty()) { std::printf("FAILED %s: %s\n", name.c_str(), wrong.c_str()); }
        }
    }
    std::printf("tally: %d passed, %d failed, 0 skipped\n", passed, failed);
    return failed == 0 ? 0 : 1;
}

} // namespace tests::exits
