// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `cuda_exit` knows when CUDA must not be called any more: the process ends, or it is a child of
/// `fork`.

#include <vram/base/process_exit.hpp> // process_exit

#include <vram/base/requirements.hpp> // C++20

#include <cuda_runtime_api.h> // cudaError_t

#include <atomic> // atomic

#if __has_include(<pthread.h>) && __has_include(<unistd.h>)
#include <pthread.h> // pthread_atfork
#define VRAM_FORKS 1
#endif

#if CUDART_VERSION < 12080 // before, a stream cannot be asked for its device
#ifdef __NVCC__            // base/requirements.hpp explains the two ways to stop
#error vram/cuda needs the CUDA Toolkit 12.8 or later
#else
#include "vram/cuda needs the CUDA Toolkit 12.8 or later"
#endif
#endif

namespace vram {

/// The end of CUDA in this process, as vram's CUDA parts see it. The runtime and the driver are
/// taken down at exit in an order that no program controls, and a call made too late crashes or
/// hangs; so a pool in static storage lets its memory go with the process instead of freeing it.
///
/// A child of `fork` cannot use the CUDA of its parent. The objects that it inherits make no call
/// there: they can be destroyed, and an allocation is refused with cudaErrorInitializationError, as
/// CUDA itself refuses it. A process that forks before it has made an object of vram's has
/// children that use CUDA as they like.
///
/// Threads   any
/// Cost      `began` is two relaxed loads; `watch` one more, and a store of the thread's own
class cuda_exit {
public:
    [[nodiscard]] static bool began() noexcept { return process_exit::began() || forked(); }

    /// Makes `call`, a CUDA call that returns its status; after the end has begun makes no call and
    /// returns success: all is done already.
    template <class Call>
    [[nodiscard]] static cudaError_t or_done(Call call) noexcept {
        if (began()) { return cudaSuccess; }
        cudaError_t const status = call();
        if (status != cudaErrorCudartUnloading) [[likely]] { return status; }
        process_exit::note(); // the runtime knew before vram did
        return cudaSuccess;
    }

    /// Makes `call`, which makes something new; after the end has begun, it is refused.
    template <class Call>
    [[nodiscard]] static cudaError_t or_refused(Call call) noexcept {
        watch();
        if (began()) { return forked() ? cudaErrorInitializationError : cudaErrorCudartUnloading; }
        return call();
    }

    /// From here on the end is seen before the first object in static storage is destroyed. Called
    /// by everything that makes something of CUDA's.
    static void watch() noexcept {
        process_exit::watch();
#ifdef VRAM_FORKS
        [[maybe_unused]] static int const armed = ::pthread_atfork(
            nullptr, nullptr, [] { forked_.store(true, std::memory_order_relaxed); });
#endif
    }

private:
    [[nodiscard]] static bool forked() noexcept { return forked_.load(std::memory_order_relaxed); }

    static inline constinit std::atomic<bool> forked_{false}; ///< from a process that watched
};

} // namespace vram

#undef VRAM_FORKS
