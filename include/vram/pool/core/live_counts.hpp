// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `live_counts` are the numbers of a pool: its live bytes, their peaks, and its allocations.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// Counts the live bytes of a pool, their peak, and the allocations.
///
/// Threads   One thread at a time.
class live_counts {
public:
    live_counts() = default;
    live_counts(live_counts&& other) noexcept { *this = static_cast<live_counts&&>(other); }
    live_counts& operator=(live_counts&& other) noexcept {
        live_        = std::exchange(other.live_, 0);
        allocations_ = std::exchange(other.allocations_, 0);
        peak_live_   = std::exchange(other.peak_live_, 0);
        most_live_   = std::exchange(other.most_live_, 0);
        return *this;
    }

    [[gnu::always_inline]] void add(std::size_t bytes) noexcept {
        ++allocations_;
        live_ += bytes;
        if (live_ > peak_live_) { peak_live_ = live_; }
    }
    /// Counts the free of a block.
    void retract(std::size_t bytes) noexcept { live_ -= bytes; }
    /// Counts freed memory as live for ever. Called if the last use of the memory could not be
    /// recorded and waiting for it failed.
    void keep_out(std::size_t bytes) noexcept {
        live_ += bytes;
        raise_peak(live_);
    }

    /// Sets the peak to the number of bytes that are live now. Returns the previous peak.
    std::size_t reset_peak() noexcept {
        most_live_ = most_live();
        return std::exchange(peak_live_, live_);
    }
    void raise_peak(std::size_t to) noexcept { peak_live_ = to > peak_live_ ? to : peak_live_; }
    /// Returns the highest number of live bytes since creation, regardless of `reset_peak`.
    [[nodiscard]] std::size_t most_live() const noexcept {
        return peak_live_ > most_live_ ? peak_live_ : most_live_;
    }
    [[nodiscard]] std::size_t   live() const noexcept { return live_; }
    [[nodiscard]] std::size_t   peak() const noexcept { return peak_live_; }
    [[nodiscard]] std::uint64_t allocations() const noexcept { return allocations_; }

private:
    std::size_t live_      = 0;
    std::size_t peak_live_ = 0;
    /// Highest number of live bytes before the last call of `reset_peak`, or 0 if there was none.
    std::size_t most_live_ = 0;
    // Not next to `live_`: the compiler would then read both members with one load. That load would
    // be slow shortly after the two stores that write them.
    std::uint64_t allocations_ = 0;
};

} // namespace detail
} // namespace vram
