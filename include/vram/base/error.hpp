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

/// Receives an error; called by any thread, which holds no lock of vram then (but see
/// `report_error` for want of host memory): it may call any function that does not throw.
using error_sink = void (*)(error const&) noexcept;

/// The sink that is installed at first: one line on stderr.
inline void print_error(error const& e) noexcept {
    std::fprintf(stderr, "%s\n", error_text{e}.c_str());
}

namespace detail {
inline constinit std::atomic<error_sink> sink = print_error;

/// How many locks of vram this thread holds, and `errors_wait` more while something is to be told
/// when it holds none. (A platform that decides which thread runs leaves one on that holds any: the
/// others may already be waiting for it, where the platform cannot see them.)
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
inline constinit thread_local waiting_error*  first_error = nullptr;
inline constinit thread_local waiting_error** error_after = nullptr; ///< the last one's `next`
inline constinit thread_local waiting_error   spare_error{};         ///< for want of host memory
inline constinit thread_local bool            spare_waits = false;

/// Returns false if there is no host memory to keep it in.
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
/// Reports what waited. No lock is held.
[[gnu::noinline, gnu::cold]] inline void tell_errors() noexcept {
    waiting_error* each = first_error;
    locks_held          = 0;
    while (each != nullptr) {
        waiting_error one;
        one.keep(each->what); // a copy: the sink may report errors of its own
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

/// A lock counts itself: `held_one()` when it is taken; when it is let go `let_one_go()` before,
/// and `tell_errors()` after it, where that says so.
[[gnu::always_inline]] inline void            held_one() noexcept { ++locks_held; }
[[nodiscard, gnu::always_inline]] inline bool let_one_go() noexcept {
    return --locks_held == errors_wait;
}
} // namespace detail

/// Installs `sink` (never null) and returns the one before it. Thread-safe.
inline error_sink set_error_sink(error_sink sink) noexcept { return detail::sink.exchange(sink); }

/// Tells the sink: at once, or where this thread holds a lock of vram's when it has let that go.
/// For one error a thread needs no host memory to remember it so long; without any, the next ones
/// are told at once all the same. Never throws.
inline void report_error(error const& e) noexcept {
    if (detail::locks_held == 0 || !detail::remember(e)) { detail::sink.load()(e); }
}

} // namespace vram
