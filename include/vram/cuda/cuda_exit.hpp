// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_exit` knows when the process has begun to end: from then on no call to CUDA is made.

#include <vram/base/requirements.hpp> // C++20

#include <cuda_runtime_api.h> // cudaError_t

#include <atomic>  // atomic
#include <cstdlib> // atexit
#if defined(__linux__)
#include <sys/syscall.h> // SYS_gettid
#include <unistd.h>      // getpid, syscall
#endif

#if CUDART_VERSION < 12080 // before, a stream cannot be asked for its device
#ifdef __NVCC__            // base/requirements.hpp explains the two ways to stop
#error vram/cuda needs the CUDA Toolkit 12.8 or later
#else
#include "vram/cuda needs the CUDA Toolkit 12.8 or later"
#endif
#endif

namespace vram {

/// The end of the process, as vram's CUDA parts see it. The runtime and the driver are taken down
/// at exit in an order that nobody controls, and a call made too late crashes or hangs; so a pool
/// in static storage lets its memory go with the process instead of freeing it.
///
/// Threads   any
/// Cost      `began` is one relaxed load; `watch` two more once it is armed
class cuda_exit {
public:
    [[nodiscard]] static bool began() noexcept { return began_.load(std::memory_order_relaxed); }

    /// Makes `call`, a CUDA call that gives back its status; once the end began, nothing: all is
    /// done already.
    template <class Call>
    [[nodiscard]] static cudaError_t or_done(Call call) noexcept {
        if (began()) { return cudaSuccess; }
        cudaError_t const status = call();
        if (status != cudaErrorCudartUnloading) [[likely]] { return status; }
        note(); // the runtime knew before vram did
        return cudaSuccess;
    }

    /// Makes `call`, which makes something new; once the end began, it is refused.
    template <class Call>
    [[nodiscard]] static cudaError_t or_refused(Call call) noexcept {
        watch();
        return began() ? cudaErrorCudartUnloading : call();
    }

    /// Takes care that the end is seen before the first object in static storage is destroyed.
    /// Called by everything that makes something of CUDA's.
    static void watch() noexcept {
        // Handlers run last in, first out: this one comes before whatever was constructed earlier,
        [[maybe_unused]] static int const armed = std::atexit(note);
        // and the main thread's own objects end before any static one, also one constructed later.
        thread_local farewell last;
        last.touch();
    }

private:
    static void note() noexcept { began_.store(true, std::memory_order_relaxed); }

    /// Ends with its thread. Leaving the main thread alone (`pthread_exit`) is not yet the end, so
    /// all that it does is put the handler in front of every other.
    struct farewell {
        void touch() noexcept {} // a thread_local is made where it is first used
        ~farewell() {
            if (on_main_thread()) { std::atexit(note); }
        }
    };

    static bool on_main_thread() noexcept {
#if defined(__linux__)
        return ::syscall(SYS_gettid) == ::getpid();
#else
        return false;
#endif
    }

    static inline constinit std::atomic<bool> began_{false};
};

} // namespace vram
