// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gauge` is a level that many threads fill and that never shows more than its limit.

#include <atomic>  // atomic
#include <cstddef> // size_t

namespace vram {

/// A counter of bytes in use, movable until it is shared.
///
/// Threads   `try_add` and `sub` from any thread; moving only while no other thread looks.
/// Cost      one atomic operation; `try_add` repeats under contention.
class gauge {
public:
    gauge() = default;
    gauge(gauge&& other) noexcept : used_{other.used_.exchange(0)} {}
    gauge& operator=(gauge&& other) noexcept {
        used_ = other.used_.exchange(0);
        return *this;
    }

    /// Adds `bytes` if the sum stays within `limit`. Compare and exchange, rather than add and roll
    /// back: a refused request is never visible, so it cannot make a fitting one fail.
    [[nodiscard]] bool try_add(std::size_t bytes, std::size_t limit) noexcept {
        std::size_t now = used_.load(std::memory_order_relaxed);
        do {
            if (now > limit || bytes > limit - now) { return false; }
        } while (!used_.compare_exchange_weak(now, now + bytes, std::memory_order_relaxed));
        return true;
    }

    void sub(std::size_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }

    [[nodiscard]] std::size_t used() const noexcept {
        return used_.load(std::memory_order_relaxed);
    }

private:
    std::atomic<std::size_t> used_{0};
};

} // namespace vram
