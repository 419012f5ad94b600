// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `memory_usage` holds the counters of a resource.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {

/// The figures of a resource, such as its present bytes, peaks, and numbers of operations. Peaks
/// are counted from their last reset on. A figure that the resource does not count is zero.
struct memory_usage {
    /// Live (allocated and not yet freed) bytes, with the resource's rounding.
    std::size_t live      = 0;
    std::size_t requested = 0; ///< sum of the sizes that callers requested for the live blocks
    /// Bytes obtained from the upstream or the device. For `region_resource`, size of its region.
    std::size_t reserved      = 0;
    std::size_t peak_live     = 0; ///< the highest `live` since the last reset of the peaks
    std::size_t peak_reserved = 0; ///< the highest `reserved` since the last reset of the peaks
    /// The highest `live` before the last reset of the peaks, or a larger number. Usually exact.
    std::size_t past_peak = 0;
    /// Bytes of the largest free block. A larger request needs memory from the upstream or the
    /// device; a smaller one may need it too.
    std::size_t largest_free = 0;
    std::size_t pending      = 0; ///< freed bytes that a stream may still use

    std::uint64_t allocations = 0; ///< number of successful allocations
    /// Number of times that the resource recorded an event: placed it behind the current work of a
    /// stream, as `cudaEventRecord` does.
    std::uint64_t events = 0;
    std::uint64_t waits  = 0; ///< number of waits of streams or host threads for freed memory
    /// Number of calls that allocated memory from the resource's upstream (the resource from which
    /// it allocates) or from the driver, or freed memory to them.
    std::uint64_t upstream = 0;
    std::uint64_t restarts = 0; ///< number of calls of `restart_peaks` and `raise_peaks`

    /// Returns the highest value of `live` since the construction of the resource, or an upper
    /// bound of it. Resets of the peaks do not change the result.
    [[nodiscard]] constexpr std::size_t highest_live() const noexcept {
        return peak_live > past_peak ? peak_live : past_peak;
    }
    /// Resets the peaks to the current `live` and `reserved`, and counts the call in `restarts`.
    /// Returns the previous counters.
    constexpr memory_usage restart_peaks() noexcept {
        memory_usage const before = *this;
        past_peak                 = highest_live();
        peak_live                 = live;
        peak_reserved             = reserved;
        ++restarts;
        return before;
    }
    /// Undoes a reset of the peaks: raises each peak to its value in `before` if that is higher.
    /// `before`: the counters that `restart_peaks` returned. Counts the call in `restarts`.
    constexpr void raise_peaks(memory_usage const& before) noexcept {
        if (before.peak_live > peak_live) { peak_live = before.peak_live; }
        if (before.peak_reserved > peak_reserved) { peak_reserved = before.peak_reserved; }
        ++restarts;
    }
    /// Adds the counters of a second resource; `largest_free` becomes the larger of both. The
    /// summed peaks are upper bounds.
    constexpr void add(memory_usage const& more) noexcept {
        // This line comes first, because `highest_live()` must read the old value of `peak_live`.
        past_peak = highest_live() + more.highest_live();
        live += more.live;
        requested += more.requested;
        reserved += more.reserved;
        peak_live += more.peak_live;
        peak_reserved += more.peak_reserved;
        if (more.largest_free > largest_free) { largest_free = more.largest_free; }
        pending += more.pending;
        allocations += more.allocations;
        events += more.events;
        waits += more.waits;
        upstream += more.upstream;
        restarts += more.restarts;
    }

    friend bool operator==(memory_usage const&, memory_usage const&) = default;
};

} // namespace vram
