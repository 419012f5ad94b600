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

/// Detects the end of the process: a thread has called `exit`, or `main` has returned. From then
/// on, objects in static storage are destroyed in an order that no program controls.
///
/// An object that owns memory or handles of a platform calls `watch` in its constructor. If the
/// object is in static storage, its destructor then sees that `began` is true, even if it was
/// constructed after the first call of `watch`. `quick_exit`, `_exit` and `abort` destroy no
/// object.
///
/// Threads   Any thread may call.
/// Cost      `began` is one relaxed load. `watch` is one more, and a store to a thread-local
///           variable. The C library keeps 32 bytes for each ended thread that called `watch`.
class process_exit {
public:
    [[nodiscard]] static bool began() noexcept { return began_.load(std::memory_order_relaxed); }

    /// Makes `began` return true from now on. A platform calls this function if it detects the end
    /// of the process first, as by the error cudaErrorCudartUnloading.
    static void note() noexcept { began_.store(true, std::memory_order_relaxed); }

    /// Registers handlers so that, after a call of `exit` or the end of `main`, `began()` returns
    /// true before the first object in static storage is destroyed.
    static void watch() noexcept {
        // `atexit` handlers run last in, first out: this one runs before the destructor of each
        // static object that was constructed earlier.
        [[maybe_unused]] static int const armed = std::atexit(note);
        // Each CUDA allocation calls this function. Threads that only read a shared variable do not
        // slow each other down, so `made_` is written only if it changes.
        if (!made_.load(std::memory_order_relaxed)) {
            made_.store(true, std::memory_order_relaxed);
        }
        thread_local farewell last;
        last.made = true;
    }

private:
    /// Each thread that calls `watch` has one such thread-local object. Its destructor runs when
    /// the thread ends, and, in the thread that calls `exit`, before all static destructors. It
    /// registers `note` with `atexit` once more, so that `note` also runs before the destructors of
    /// static objects that were constructed after the first `watch`. If the thread merely ends, the
    /// additional handler is harmless.
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
    /// True if a thread has called `watch` since the last `farewell` (an object of each thread that
    /// called it) was destroyed.
    static inline constinit std::atomic<bool> made_{false};
};

} // namespace detail
} // namespace vram
