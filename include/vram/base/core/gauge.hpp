// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `gauge` is an atomic counter with an upper limit.

#include <vram/base/requirements.hpp>

#include <atomic> // atomic
#include <cstddef>

namespace vram {
namespace detail {

/// An atomic counter of bytes. `try_add` refuses to exceed a limit.
///
/// Threads   Any thread may use it, but not during a move.
class gauge {
public:
    gauge() = default;
    gauge(gauge&& other) noexcept : used_{other.used_.exchange(0)} {}
    gauge& operator=(gauge&& other) noexcept {
        used_ = other.used_.exchange(0);
        return *this;
    }

    /// Adds `bytes` and returns true, unless the sum would exceed `limit`: then changes nothing and
    /// returns false.
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

} // namespace detail
} // namespace vram
