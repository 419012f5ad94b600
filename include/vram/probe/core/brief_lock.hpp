// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `brief_lock` is a lock for a few instructions.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic

#if __has_include(<sched.h>)
#include <sched.h> // sched_yield
#endif

namespace vram {
namespace detail {

/// A spin lock for a few instructions. A thread that waits polls, and yields to other threads. The
/// holder must call neither the platform nor a resource.
class brief_lock {
public:
    class [[nodiscard]] guard {
    public:
        explicit guard(brief_lock& lock) noexcept : lock_{lock} { lock_.take(); }
        guard(guard const&)            = delete;
        guard& operator=(guard const&) = delete;
        ~guard() { lock_.taken_.store(false, std::memory_order_release); }

    private:
        brief_lock& lock_;
    };

    [[nodiscard]] guard hold() noexcept { return guard{*this}; }

private:
    void take() noexcept {
        while (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]] { wait(); }
    }
    [[gnu::noinline]] void wait() const noexcept {
        for (unsigned polls = 1; taken_.load(std::memory_order_relaxed); ++polls) {
            if (polls % 64 != 0) { continue; }
#if __has_include(<sched.h>)
            ::sched_yield();
#endif
        }
    }

    std::atomic<bool> taken_{false};
};

} // namespace detail
} // namespace vram
