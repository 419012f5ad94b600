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

/// Detects that CUDA must not be called any more, because a call could crash or hang: the process
/// is ending, or it is a child of `fork` whose parent used CUDA through vram. Objects of vram then
/// make no CUDA call.
///
/// Threads   Any thread may call.
class cuda_exit {
public:
    /// Returns true if CUDA must not be called: the process is ending, or it is a child of `fork`
    /// and the parent called `watch` before the `fork`.
    [[nodiscard]] static bool began() noexcept { return process_exit::began() || forked(); }

    /// Calls `call` and returns its status. The call must be one that waits, frees, queries or
    /// copies. If CUDA must not be called (at process end, or in a child of `fork`), returns
    /// cudaSuccess instead.
    template <class Call>
    [[nodiscard]] static cudaError_t or_done(Call call) noexcept {
        if (began()) { return cudaSuccess; }
        cudaError_t const status = call();
        if (status != cudaErrorCudartUnloading) [[likely]] { return status; }
        // The CUDA runtime has already shut down, so the process is ending. From now on, `began`
        // returns true.
        process_exit::note();
        return cudaSuccess;
    }

    /// Makes the call `call()`, which creates a CUDA object other than an event, and returns its
    /// status. If CUDA must not be called (at process end, or in a child of `fork`), returns an
    /// error instead.
    template <class Call>
    [[nodiscard]] static cudaError_t or_refused(Call call) noexcept {
        watch();
        if (began()) { return forked() ? cudaErrorInitializationError : cudaErrorCudartUnloading; }
        return call();
    }

    /// Must be called by each function that creates a CUDA object, so that `began()` detects the
    /// end of the process and a `fork`.
    static void watch() noexcept {
        process_exit::watch();
#ifdef VRAM_FORKS
        [[maybe_unused]] static int const armed = ::pthread_atfork(
            nullptr, nullptr, [] { forked_.store(true, std::memory_order_relaxed); });
#endif
    }

private:
    [[nodiscard]] static bool forked() noexcept { return forked_.load(std::memory_order_relaxed); }

    /// True in a child of `fork` if the parent called `watch` before the `fork`. A handler of
    /// `pthread_atfork` sets this variable in the child.
    static inline constinit std::atomic<bool> forked_{false};
};

} // namespace detail
} // namespace vram

#undef VRAM_FORKS
