// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `process_fence` is a memory fence that one thread makes for all threads of the process.

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

/// Lets a frequent side of a handshake do without fences: between its store and its load it keeps
/// only the compiler from reordering, and the rare side pays for both. Linux's membarrier (4.14);
/// not under ThreadSanitizer, which cannot see it.
///
/// Failure   where there is none, `available` says so and `make` is not called
/// Threads   any
/// Cost      `make` a few microseconds and an interrupt to every core that runs this process
class process_fence {
public:
    /// Whether `make` works here. The first call asks the system.
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

} // namespace vram

#undef VRAM_HAS_PROCESS_FENCE
