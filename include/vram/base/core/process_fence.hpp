// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `process_fence` is an asymmetric fence: one thread issues a memory fence on all threads.

#include <vram/base/requirements.hpp>

#if defined __linux__ && __has_include(<linux/membarrier.h>) && !defined __SANITIZE_THREAD__
#if defined __has_feature
#if !__has_feature(thread_sanitizer)
#define VRAM_HAS_PROCESS_FENCE
#endif
#else
#define VRAM_HAS_PROCESS_FENCE
#endif
#endif

#ifdef VRAM_HAS_PROCESS_FENCE
#include <linux/membarrier.h> // MEMBARRIER_CMD_PRIVATE_EXPEDITED
#include <sys/syscall.h>      // SYS_membarrier
#include <unistd.h>           // syscall
#endif

namespace vram {
namespace detail {

/// A memory fence for two threads that each store one variable and then load the other's. The
/// frequent path needs only a compiler fence; the rare path calls `make`, which acts for both
/// threads. Not available under ThreadSanitizer.
///
/// Failure   If `available` returns false, do not call `make`.
/// Threads   Any thread may call.
/// Cost      `make` takes a few microseconds and interrupts the cores of this process.
class process_fence {
public:
    /// Returns true if the system call `membarrier` of `make` is available; otherwise `make` must
    /// not be called. The first call registers the process for `membarrier`.
    [[nodiscard]] static bool available() noexcept {
#ifdef VRAM_HAS_PROCESS_FENCE
        static bool const registered =
            ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
        return registered;
#else
        return false;
#endif
    }
    static void make() noexcept {
#ifdef VRAM_HAS_PROCESS_FENCE
        ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
#endif
    }
};

} // namespace detail
} // namespace vram

#undef VRAM_HAS_PROCESS_FENCE
