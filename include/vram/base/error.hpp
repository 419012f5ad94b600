// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `error` is what went wrong where nothing may be thrown: in a `deallocate`, in a destructor.

#include <atomic>          // atomic
#include <cstddef>         // size_t
#include <cstdio>          // fprintf
#include <new>             // nothrow
#include <source_location> // source_location

namespace vram {

/// The kinds of errors that are reported to the error sink.
enum class error_kind {
    foreign_pointer, ///< the memory is not this resource's, or was given back before
    wrong_size,      ///< given back with another size or alignment than it was asked with
    dead_stream,     ///< a stream was destroyed while memory still waited for it
    platform_error,  ///< a call of the platform failed; `code` is its error
    leak,            ///< memory was still out when its resource was destroyed
};
using mishap = error_kind; ///< the former name

/// Returns the text that `print_error` prints for a kind.
[[nodiscard]] constexpr char const* name(error_kind kind) noexcept {
    switch (kind) {
    case error_kind::foreign_pointer: return "foreign pointer or double free";
    case error_kind::wrong_size:
        return "freed with a size or alignment that it was not allocated with";
    case error_kind::dead_stream: return "stream destroyed while memory waited for it";
    case error_kind::platform_error: return "platform error";
    case error_kind::leak: return "memory still out at the end of its resource";
    }
    return "unknown";
}

/// One reported error with its numbers.
struct error {
    error_kind           kind;
    void const*          pointer = nullptr;
    std::size_t          bytes   = 0;
    int                  code    = 0;
    std::source_location where   = std::source_location::current();
};

/// Takes note of an error; called by any thread, which holds no lock of vram's then (but see
/// `report_error` for want of host memory): it may call whatever does not throw.
using error_sink = void (*)(error const&) noexcept;

/// The sink that is there from the start: one line on stderr.
inline void print_error(error const& e) noexcept {
    std::fprintf(stderr, "%s:%u: vram: %s (pointer %p, %zu bytes, code %d)\n", e.where.file_name(),
                 static_cast<unsigned>(e.where.line()), name(e.kind), e.pointer, e.bytes, e.code);
}

namespace detail {
inline constinit std::atomic<error_sink> sink = print_error;

/// How many locks of vram this thread holds, and `errors_wait` more while something is to be told
/// when it holds none. (A platform that decides which thread runs leaves one on that holds any: the
/// others may already be waiting for it, where the platform cannot see them.)
inline constinit thread_local unsigned locks_held  = 0;
inline constexpr unsigned              errors_wait = 1U << 31;

/// An error that is told later.
struct waiting_error {
    error          what;
    waiting_error* next = nullptr;
};
inline constinit thread_local waiting_error*  first_error = nullptr;
inline constinit thread_local waiting_error** error_after = nullptr; ///< the last one's `next`
inline constinit thread_local waiting_error   spare_error{};         ///< for want of host memory
inline constinit thread_local bool            spare_waits = false;

/// False: there is no host memory to remember it in.
[[nodiscard]] inline bool remember(error const& e) noexcept {
    auto* fresh = new (std::nothrow) waiting_error{.what = e};
    if (fresh == nullptr) {
        if (spare_waits) { return false; }
        spare_waits = true;
        spare_error = {.what = e};
        fresh       = &spare_error;
    }
    *((locks_held & errors_wait) != 0 ? error_after : &first_error) = fresh;
    error_after                                                     = &fresh->next;
    locks_held |= errors_wait;
    return true;
}
/// Tells the sink what waited. No lock is held.
[[gnu::noinline, gnu::cold]] inline void tell_errors() noexcept {
    waiting_error* each = first_error;
    locks_held          = 0;
    while (each != nullptr) {
        waiting_error const one = *each; // the sink may report errors of its own
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
