// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_statistics` is where the time of a loop went.

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// Counts and times of one loader, in nanoseconds of the platform's clock (virtual on a simulated
/// one).
struct loader_statistics {
    std::uint64_t batches    = 0; ///< handed to the consumer
    std::uint64_t bytes      = 0; ///< copied to the device
    std::uint64_t fill_ns    = 0; ///< spent in the source
    std::uint64_t copy_ns    = 0; ///< spent by copies on the device; needs `loader_options::timing`
    std::uint64_t slot_ns    = 0; ///< the producer waited for a slot: the loop had them all
    std::uint64_t pinned_ns  = 0; ///< the producer waited for a copy out of the slot's pinned block
    std::uint64_t stall_ns   = 0; ///< the consumer waited for a batch
    std::uint64_t wall_ns    = 0; ///< from the first fill to the last batch that was asked for
    std::uint64_t host_waits = 0; ///< times that the producer had to wait for the device
    std::uint64_t allocations = 0; ///< of pinned and device memory, all before the first batch

    enum class bound { producer, transfer, compute };

    /// The stage that the others wait for: the one that is busy for four fifths of the time, and
    /// where neither producing nor copying is, the loop itself.
    [[nodiscard]] bound verdict() const noexcept {
        std::uint64_t const most = fill_ns >= copy_ns ? fill_ns : copy_ns;
        if (most < wall_ns - wall_ns / 5) { return bound::compute; }
        return fill_ns >= copy_ns ? bound::producer : bound::transfer;
    }
};

/// "producer-bound", "transfer-bound" or "compute-bound".
[[nodiscard]] constexpr char const* name(loader_statistics::bound b) noexcept {
    switch (b) {
    case loader_statistics::bound::producer: return "producer-bound";
    case loader_statistics::bound::transfer: return "transfer-bound";
    case loader_statistics::bound::compute: return "compute-bound";
    }
    return "unknown";
}

} // namespace vram
