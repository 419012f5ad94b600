// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report_error` passes an error to the error sink if nothing may be thrown: in a `deallocate`, in
/// a destructor.

#include <vram/base/error_kind.hpp> // error, error_kind
#include <vram/base/error_text.hpp> // error_text

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <cstdio>  // fprintf
#include <cstring> // strlen, memcpy
#include <new>     // nothrow

namespace vram {

/// A function that receives reported errors. Any thread may call it. The thread then holds no lock
/// of vram (for an exception see `report_error`), so the function may call any function that does
/// not throw.
using error_sink = void (*)(error const&) noexcept;

/// The default error sink: prints one line to stderr.
inline void print_error(error const& e) noexcept {
    std::fprintf(stderr, "%s\n", error_text{e}.c_str());
}

namespace detail {
inline constinit std::atomic<error_sink> sink = print_error;

/// Number of locks of vram that this thread holds, plus `errors_wait` if an error is to be reported
/// when it holds none. (A platform that schedules simulated threads does not switch away from a
/// thread that holds a lock, because other threads may be waiting for the lock without its
/// knowledge.)
inline constinit thread_local unsigned locks_held  = 0;
inline constexpr unsigned              errors_wait = 1U << 31;

/// An error that is reported later, with its own copy of `cause`.
struct waiting_error {
    error          what       = {};
    waiting_error* next       = nullptr;
    char           cause[200] = "";

    void keep(error const& e) noexcept {
        what = e;
        next = nullptr;
        if (e.cause == nullptr) { return; }
        std::size_t const length = std::strlen(e.cause);
        std::size_t const kept   = length < sizeof cause ? length : sizeof cause - 1;
        std::memcpy(cause, e.cause, kept);
        cause[kept] = '\0';
        what.cause  = cause;
    }
};
inline constinit thread_local waiting_error* first_error = nullptr;
/// `next` of the last stored error.
inline constinit thread_local waiting_error** error_after = nullptr;
/// Used if there is no host memory.
inline constinit thread_local waiting_error spare_error{};
inline constinit thread_local bool          spare_waits = false;

/// Stores an error until the thread holds no lock. Returns false if there is no host memory for it.
[[nodiscard]] inline bool remember(error const& e) noexcept {
    auto* fresh = new (std::nothrow) waiting_error;
    if (fresh == nullptr) {
        if (spare_waits) { return false; }
        spare_waits = true;
        fresh       = &spare_error;
    }
    fresh->keep(e);
    *((locks_held & errors_wait) != 0 ? error_after : &first_error) = fresh;
    error_after                                                     = &fresh->next;
    locks_held |= errors_wait;
    return true;
}
/// Reports the stored errors of this thread, which must hold no lock.
[[gnu::noinline, gnu::cold]] inline void tell_errors() noexcept {
    waiting_error* each = first_error;
    locks_held          = 0;
    while (each != nullptr) {
        waiting_error one;
        one.keep(each->what); // a copy, because the sink may report errors itself
        one.next = each->next;
        if (each != &spare_error) {
            delete each;
        } else {
            spare_waits = false;
        }
        sink.load()(one.what);
        each = one.next;
    }
}

/// Counts the locks of the thread. A lock calls `held_one()` after locking, `let_one_go()` before
/// unlocking, and, if that returned true, `tell_errors()` after unlocking.
[[gnu::always_inline]] inline void            held_one() noexcept { ++locks_held; }
[[nodiscard, gnu::always_inline]] inline bool let_one_go() noexcept {
    return --locks_held == errors_wait;
}
} // namespace detail

/// Installs the error sink `sink`, which must not be null, and returns the previous one. Any thread
/// may call.
inline error_sink set_error_sink(error_sink sink) noexcept { return detail::sink.exchange(sink); }

/// Passes an error to the error sink: at once, or, if this thread holds a lock of vram, after it
/// has unlocked. One error for each thread can be stored without host memory. Without host memory,
/// further errors are passed to the sink at once, under the lock. Never throws.
inline void report_error(error const& e) noexcept {
    if (detail::locks_held == 0 || !detail::remember(e)) { detail::sink.load()(e); }
}

} // namespace vram
