// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_exit` detects that CUDA must not be called any more: the process is ending, or it is a
/// forked child.

#include <vram/base/core/process_exit.hpp>

#include <vram/base/requirements.hpp>

#include <cuda_runtime_api.h> // cudaError_t

#include <atomic> // atomic

#if __has_include(<pthread.h>) && __has_include(<unistd.h>)
#include <pthread.h> // pthread_atfork
#define VRAM_FORKS 1
#endif

#if CUDART_VERSION < 12080 // older versions cannot return the device of a stream
#ifdef __NVCC__            // base/requirements.hpp explains the two ways to stop
#error vram/cuda needs the CUDA Toolkit 12.8 or later
#else
#include "vram/cuda needs the CUDA Toolkit 12.8 or later"
#endif
#endif

namespace vram {
namespace detail {

/// Detects the end of CUDA in this process. At exit, the runtime and the driver are shut down in an
/// order that no program controls, and a call made too late crashes or hangs. So a pool in static
/// storage does not free its memory then: the system frees all memory of an ended process.
///
/// A child of `fork` cannot use the CUDA of its parent. Objects of vram that it inherits make no
/// CUDA call there: they can be destroyed, and an allocation is refused with
/// cudaErrorInitializationError, as CUDA itself refuses it. If a process forks before it uses CUDA
/// and before it creates an object of vram, its children can use CUDA normally.
///
/// Threads   Any thread may call.
/// Cost      `began` is two relaxed loads. `watch` is one more, and a store.
class cuda_exit {
public:
    /// Returns true if CUDA must not be called: the process is ending, or it is a child of a
    /// process that called `watch` before the `fork`.
    [[nodiscard]] static bool began() noexcept { return process_exit::began() || forked(); }

    /// Makes the CUDA call `call` and returns its status, but counts the end of CUDA as success:
    /// returns cudaSuccess without the call if the process is ending or is a forked child
    /// (`began()`), and also if the status means that the runtime was shut down. For calls that
    /// then need not take effect, such as waits, frees, queries and copies.
    template <class Call>
    [[nodiscard]] static cudaError_t or_done(Call call) noexcept {
        if (began()) { return cudaSuccess; }
        cudaError_t const status = call();
        if (status != cudaErrorCudartUnloading) [[likely]] { return status; }
        // The runtime is shut down, so the process is ending, which vram has not noticed until now.
        process_exit::note();
        return cudaSuccess;
    }

    /// Makes the CUDA call `call`, which creates something, and returns its status. Returns an
    /// error without the call if CUDA must not be called: cudaErrorInitializationError in a forked
    /// child, cudaErrorCudartUnloading if the process is ending.
    template <class Call>
    [[nodiscard]] static cudaError_t or_refused(Call call) noexcept {
        watch();
        if (began()) { return forked() ? cudaErrorInitializationError : cudaErrorCudartUnloading; }
        return call();
    }

    /// Must be called by each function that creates a CUDA object. Makes sure that `began()` is
    /// true before the first object in static storage is destroyed, and in later children of
    /// `fork`.
    static void watch() noexcept {
        process_exit::watch();
#ifdef VRAM_FORKS
        [[maybe_unused]] static int const armed = ::pthread_atfork(
            nullptr, nullptr, [] { forked_.store(true, std::memory_order_relaxed); });
#endif
    }

private:
    [[nodiscard]] static bool forked() noexcept { return forked_.load(std::memory_order_relaxed); }

    /// True in a child of `fork` whose parent called `watch` before: a handler of `pthread_atfork`
    /// sets it there.
    static inline constinit std::atomic<bool> forked_{false};
};

} // namespace detail
} // namespace vram

#undef VRAM_FORKS
