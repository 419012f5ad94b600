// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `process_exit` detects that the process has begun to end.

#include <vram/base/requirements.hpp>

#include <atomic>  // atomic
#include <cstdlib> // atexit

namespace vram {
namespace detail {

/// Tells if the process is ending: `exit` was called, or `main` has returned. An object that owns
/// memory or handles calls `watch` in its constructor and `began` in its destructor. In the
/// destructor of a static object, `began()` returns true if the thread that ends the process has
/// called `watch`.
///
/// Threads   Any thread may call.
/// Cost      `began` is one relaxed load; `watch` reads a thread-local flag. A thread that called
///           `watch` leaves 32 bytes allocated (an `atexit` handler) when it ends.
class process_exit {
public:
    [[nodiscard]] static bool began() noexcept { return began_.load(std::memory_order_relaxed); }

    /// Makes `began` return true. For a platform that detects the end of the process itself, such
    /// as by cudaErrorCudartUnloading.
    static void note() noexcept { began_.store(true, std::memory_order_relaxed); }

    /// Makes `began()` return true when the process ends. That happens before static objects are
    /// destroyed if the thread that ends the process has called `watch`.
    static void watch() noexcept {
        // Registers `note` with `atexit`, in the first call only. `exit` calls `note` before it
        // destroys the static objects that were constructed before this first call.
        [[maybe_unused]] static int const      armed = std::atexit(note);
        [[maybe_unused]] thread_local farewell last;
    }

private:
    /// A thread that called `watch` destroys this object when it ends. The destructor registers
    /// `note` with `atexit` again. `exit` then also calls `note` before it destroys static objects
    /// that were constructed after the first call of `watch`.
    struct farewell {
        ~farewell() { std::atexit(note); }
    };

    static inline constinit std::atomic<bool> began_{false};
};

} // namespace detail
} // namespace vram
