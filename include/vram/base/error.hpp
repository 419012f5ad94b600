// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report_error` passes an error to the error sink, for functions that must not throw, such as
/// `deallocate` and destructors.

#include <vram/base/error_kind.hpp> // error, error_kind
#include <vram/base/error_text.hpp>

#include <atomic> // atomic
#include <cstddef>
#include <cstdio>  // fprintf
#include <cstring> // strlen, memcpy
#include <new>     // nothrow

namespace vram {

/// A function that receives the errors that vram reports instead of throwing. Any thread may call
/// it. It may call non-throwing vram functions.
using error_sink = void (*)(error const&) noexcept;

/// The default error sink: prints one line to stderr.
inline void print_error(error const& e) noexcept {
    std::fprintf(stderr, "%s\n", error_text{e}.c_str());
}

namespace detail {
inline constinit std::atomic<error_sink> sink = print_error;

/// Number of locks of vram that the calling thread holds. The bit `has_errors` is set if the thread
/// has stored errors to report.
inline constinit thread_local unsigned locks_held = 0;
inline constexpr unsigned              has_errors = 1U << 31;

/// A copy of an error that is reported later, once the thread holds no lock of vram. It contains
/// the first 199 characters of the text `cause`.
struct stored_error {
    error         what       = {};
    stored_error* next       = nullptr;
    char          cause[200] = "";

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
inline constinit thread_local stored_error* first_error = nullptr;
/// Address of the member `next` of the last error in the list `first_error`. The next error is
/// appended there. Not used while the list is empty.
inline constinit thread_local stored_error** error_after = nullptr;
/// Storage for one error of this thread, used if no host memory can be allocated for the error.
// `.where = {}` avoids a pointer to data about this source line. With AddressSanitizer of g++, each
// object file would refer to such data of its own, but the linker keeps only one copy.
inline constinit thread_local stored_error spare_error{.what = {.kind = {}, .where = {}}};
inline constinit thread_local bool         spare_waits = false;

/// Adds a copy of `e` to the calling thread's list of errors, which `report_stored_errors` passes
/// to the error sink later. Returns false if there is no memory for the copy.
[[nodiscard]] inline bool store_error(error const& e) noexcept {
    auto* fresh = new (std::nothrow) stored_error;
    if (fresh == nullptr) {
        if (spare_waits) { return false; }
        spare_waits = true;
        fresh       = &spare_error;
    }
    fresh->keep(e);
    *((locks_held & has_errors) != 0 ? error_after : &first_error) = fresh;
    error_after                                                    = &fresh->next;
    locks_held |= has_errors;
    return true;
}
/// Number of objects `postponed_errors` on this thread. While it is not 0, errors of the thread are
/// stored instead of passed to the error sink.
inline constinit thread_local unsigned errors_postponed = 0;

/// Passes the stored errors of the calling thread, which must hold no lock, to the error sink.
[[gnu::noinline, gnu::cold]] inline void report_stored_errors() noexcept {
    if (errors_postponed != 0) { return; }
    stored_error* each = first_error;
    locks_held         = 0;
    while (each != nullptr) {
        stored_error one;
        // Copies the stored error and frees it before it calls the sink. The sink may report
        // another error, which may need the storage `spare_error`.
        one.keep(each->what);
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

/// A lock of vram calls `count_lock()` after it was taken, and `uncount_lock()` before it is
/// released. If `uncount_lock()` returns true, this is the thread's last lock, and the thread has
/// stored errors. Call `report_stored_errors()` after the release then.
[[gnu::always_inline]] inline void            count_lock() noexcept { ++locks_held; }
[[nodiscard, gnu::always_inline]] inline bool uncount_lock() noexcept {
    return --locks_held == has_errors;
}

/// Returns true if the calling thread holds a lock that calls `count_lock()`, such as a
/// `biased_lock`; otherwise false.
[[nodiscard]] inline bool holds_lock() noexcept { return (locks_held & ~has_errors) != 0; }

/// While an object of this class exists, errors of its thread are stored instead of reported. The
/// destructor reports them, unless the thread holds a lock of vram or has another such object. Use
/// the class for code under a mutex that does not call `count_lock()`. Destroy the object after the
/// mutex is unlocked.
class postponed_errors {
public:
    postponed_errors() noexcept { ++errors_postponed; }
    postponed_errors(postponed_errors const&) = delete;
    ~postponed_errors() {
        if (--errors_postponed == 0 && locks_held == has_errors) { report_stored_errors(); }
    }
};
} // namespace detail

/// Installs `sink`, which must not be null, as the error sink of the process. Returns the previous
/// sink. Any thread may call this.
inline error_sink set_error_sink(error_sink sink) noexcept { return detail::sink.exchange(sink); }

namespace detail {
/// Error code of the device that has failed, or 0 if none has.
inline constinit std::atomic<int>                         failed_code{0};
inline constinit std::atomic<bool>                        failure_noted{false};
inline constinit std::atomic<bool>                        failure_reported{false};
inline constinit std::atomic<code_text (*)(int) noexcept> failed_text{nullptr};

inline void pass_on(error const& e) noexcept {
    // Stores the error if the thread holds a lock of vram or has a `postponed_errors`. Otherwise,
    // or if there is no memory to store it, the error goes to the sink at once.
    bool const now = locks_held == 0 && errors_postponed == 0;
    if (now || !store_error(e)) { sink.load()(e); }
}
/// Returns true if a device has failed for good and `e` may be a consequence of that failure.
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

/// Records that a device has failed for good, with the error `code`, which `text_of(code)`
/// describes; only the first record counts. From then on, `report_error` reports this failure once,
/// instead of all errors that may follow from it. A `code` of 0 has no effect.
inline void note_device_failure(int code, code_text (*text_of)(int) noexcept) noexcept {
    if (code == 0 || detail::failure_noted.exchange(true)) { return; }
    detail::failed_text.store(text_of);
    detail::failed_code.store(code);
}
/// Makes `report_error` report every error again, for a test that uses a device after a failure.
inline void forget_device_failure() noexcept {
    detail::failed_code.store(0);
    detail::failure_noted.store(false);
    detail::failure_reported.store(false);
}

/// Passes `e` to the error sink: at once, or once the calling thread holds no lock of vram. Errors
/// that a failed device may have caused are replaced by one report of that failure (see
/// `note_device_failure`).
inline void report_error(error const& e) noexcept {
    if (!detail::follows_failure(e)) { return detail::pass_on(e); }
    if (detail::failure_reported.exchange(true)) { return; }
    detail::pass_on({.kind    = error_kind::platform_error,
                     .code    = detail::failed_code.load(),
                     .where   = e.where,
                     .caller  = e.caller,
                     .call    = "the device",
                     .advice  = "Each later call fails too, and memory that cannot be freed is "
                                "not reported. End the process; compute-sanitizer finds the kernel "
                                "that caused the error.",
                     .text_of = detail::failed_text.load()});
}

} // namespace vram
