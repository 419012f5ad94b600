// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `process_exit` detects that the process has begun to end.

#include <vram/base/requirements.hpp>

#include <atomic>  // atomic
#include <cstdlib> // atexit

namespace vram {
namespace detail {

/// Detects the end of the process: `exit` was called, or `main` has returned. An object that owns
/// memory or handles calls `watch` in its constructor. If it is in static storage, its destructor
/// then sees that `began` is true, provided that the thread that ends the process has called
/// `watch`.
///
/// Threads   Any thread may call.
/// Cost      `began` is one relaxed load; `watch` reads a thread-local flag. A thread that called
///           `watch` takes 32 bytes when it ends, until the process ends.
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
        [[maybe_unused]] static int const      armed = std::atexit(note);
        [[maybe_unused]] thread_local farewell last;
    }

private:
    /// A thread-local object of each thread that called `watch`. At the end of the thread it
    /// registers `note` again, to run before the destructors of static objects constructed since.
    struct farewell {
        ~farewell() { std::atexit(note); }
    };

    static inline constinit std::atomic<bool> began_{false};
};

} // namespace detail
} // namespace vram
