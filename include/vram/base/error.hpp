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

namespace detail {
inline constinit std::atomic<int>  failed_code{0}; ///< of the device that failed; 0: none
inline constinit std::atomic<bool> failure_told{false};
inline constinit std::atomic<code_text (*)(int) noexcept> failed_text{nullptr};

inline void pass_on(error const& e) noexcept {
    if (locks_held == 0 || !remember(e)) { sink.load()(e); }
}
/// Returns true if a device has failed and the error may be a consequence.
[[nodiscard]] inline bool follows_failure(error const& e) noexcept {
    int const code = failed_code.load(std::memory_order_relaxed);
    if (code == 0) { return false; }
    switch (e.kind) {
    case error_kind::platform_error:
    case error_kind::dead_stream:
    case error_kind::leak: return true;
    case error_kind::lost_exception: return e.code == code;
    default: return false;
    }
}
} // namespace detail

/// Notes that a device has failed for good, with an error of its platform that every later call
/// returns. The next error that may be a consequence is reported as that failure, once for the
/// process; from then on `report_error` drops platform errors, dead streams and leaks. Any thread
/// may call.
inline void note_device_failure(int code, code_text (*text_of)(int) noexcept) noexcept {
    if (detail::failed_code.load(std::memory_order_relaxed) != 0) { return; }
    detail::failed_text.store(text_of);
    detail::failed_code.store(code);
}
/// The device was reset and works again: errors are reported again.
inline void forget_device_failure() noexcept {
    detail::failed_code.store(0);
    detail::failure_told.store(false);
}

/// Passes an error to the error sink: at once, or, if this thread holds a lock of vram, after it
/// has unlocked. One error for each thread can be stored without host memory. Without host memory,
/// further errors are passed to the sink at once, under the lock. After `note_device_failure`, an
/// error that may be a consequence is dropped, and the first one is reported as the failure. Never
/// throws.
inline void report_error(error const& e) noexcept {
    if (!detail::follows_failure(e)) { return detail::pass_on(e); }
    if (detail::failure_told.exchange(true)) { return; }
    detail::pass_on({.kind   = error_kind::platform_error,
                     .code   = detail::failed_code.load(),
                     .where  = e.where,
                     .caller = e.caller,
                     .call   = "the device",
                     .advice = "Each later call fails likewise, and memory that cannot be freed is "
                               "not reported. End the process; compute-sanitizer finds the kernel "
                               "that made the error.",
                     .text_of = detail::failed_text.load()});
}

} // namespace vram
