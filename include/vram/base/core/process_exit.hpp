// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `process_exit` detects that the process has begun to end.

#include <vram/base/requirements.hpp>

#include <atomic>  // atomic
#include <cstdlib> // atexit
#if defined(__linux__)
#include <sys/syscall.h> // SYS_gettid
#include <unistd.h>      // getpid, syscall
#endif

namespace vram {
namespace detail {

/// Detects the end of the process: `exit` was called, or `main` has returned. An object that owns
/// memory or handles calls `watch` in its constructor. If it is in static storage, its destructor
/// then sees that `began` is true, provided that the thread that ends the process has called
/// `watch`.
///
/// Threads   Any thread may call.
/// Cost      `began` is one relaxed load; `watch` is one more, and a thread-local store. A thread
///           that called `watch` takes 32 bytes when it ends, until the process ends.
class process_exit {
public:
    [[nodiscard]] static bool began() noexcept { return began_.load(std::memory_order_relaxed); }

    /// Makes `began` return true. For a platform that detects the end of the process itself, such
    /// as by cudaErrorCudartUnloading.
    static void note() noexcept { began_.store(true, std::memory_order_relaxed); }

    /// Makes `began()` return true from the end of the process on: before static objects are
    /// destroyed, if the thread that ends the process has called `watch`.
    static void watch() noexcept {
        // `note` sets `began_`. As `atexit` handlers run last in, first out, it runs before the
        // destructors of static objects constructed before this first call.
        [[maybe_unused]] static int const armed = std::atexit(note);
        // Written only when it changes, so that threads which only read the shared variable do not
        // slow each other down.
        if (!made_.load(std::memory_order_relaxed)) {
            made_.store(true, std::memory_order_relaxed);
        }
        thread_local farewell last;
        last.made = true;
    }

private:
    /// A thread-local object of each thread that called `watch`. At the end of the thread it
    /// registers `note` again, to run before the destructors of static objects constructed since.
    struct farewell {
        ~farewell() {
            bool const others = made_.exchange(false, std::memory_order_relaxed);
            if (made || others || on_main_thread()) { std::atexit(note); }
        }
        bool made = false;
    };

    static bool on_main_thread() noexcept {
#if defined(__linux__)
        return ::syscall(SYS_gettid) == ::getpid();
#else
        return false;
#endif
    }

    static inline constinit std::atomic<bool> began_{false};
    /// True if any thread has called `watch` since the last end of a thread that had called it.
    static inline constinit std::atomic<bool> made_{false};
};

} // namespace detail
} // namespace vram
