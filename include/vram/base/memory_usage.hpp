// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_usage` is what a resource says of itself when asked.

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// A resource's own figures, in bytes and counts, since it was made: but for its peaks, where
/// those can start again. What a resource cannot know stays zero.
struct memory_usage {
    std::size_t live          = 0; ///< out with clients, rounded as the resource rounds
    std::size_t requested     = 0; ///< out with clients, as they asked
    std::size_t reserved      = 0; ///< held from the upstream, or from the device
    std::size_t peak_live     = 0; ///< the highest `live` since peaks last started again
    std::size_t peak_reserved = 0; ///< the highest `reserved` since then
    std::size_t past_peak     = 0; ///< the highest `live` before that, or more
    std::size_t largest_free  = 0; ///< the largest free piece; a pool may yet grow before that goes
    std::size_t pending       = 0; ///< given back, but still waiting for a stream

    std::uint64_t allocations = 0; ///< requests that were met
    std::uint64_t events      = 0; ///< events recorded
    std::uint64_t waits       = 0; ///< waits that streams, or the host, were made to do
    std::uint64_t upstream    = 0; ///< calls of the upstream's allocate and deallocate
    std::uint64_t restarts    = 0; ///< how often peaks started again, or took in earlier ones

    /// The highest `live` since the resource was made, whatever became of its peaks.
    [[nodiscard]] constexpr std::size_t highest_live() const noexcept {
        return peak_live > past_peak ? peak_live : past_peak;
    }
    /// Peaks start again from what is out and held. Returns the figures from before.
    constexpr memory_usage restart_peaks() noexcept {
        memory_usage const before = *this;
        past_peak                 = highest_live();
        peak_live                 = live;
        peak_reserved             = reserved;
        ++restarts;
        return before;
    }
    /// Takes in the peaks of figures from before.
    constexpr void raise_peaks(memory_usage const& before) noexcept {
        if (before.peak_live > peak_live) { peak_live = before.peak_live; }
        if (before.peak_reserved > peak_reserved) { peak_reserved = before.peak_reserved; }
        ++restarts;
    }

    friend bool operator==(memory_usage const&, memory_usage const&) = default;
};

} // namespace vram
