// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_statistics` are the times that a loop spent filling, copying and waiting.

#include <vram/base/requirements.hpp> // C++20

#include <algorithm> // max, min
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t

namespace vram {

/// Counts and times of one loader, in nanoseconds of the platform's clock (virtual on a simulated
/// one).
struct loader_statistics {
    std::uint64_t batches  = 0; ///< handed to the consumer
    std::uint64_t bytes    = 0; ///< copied to the device
    std::uint64_t left_out = 0; ///< short batches that `last_batch::drop` left out
    std::uint64_t fill_ns  = 0; ///< spent in the source, by all producers together
    std::uint64_t copy_ns  = 0; ///< spent by copies on the device; needs `loader_options::timing`
    std::uint64_t use_ns   = 0; ///< between a batch's place in the loop's stream and its release;
                                ///< needs `loader_options::timing`
    std::uint64_t slot_ns     = 0; ///< producers waited for a block to fill: all were in use
    std::uint64_t pinned_ns   = 0; ///< producers waited, in the host, for the event of a copy
    std::uint64_t stall_ns    = 0; ///< no batch was there; also enqueueing its copy
    std::uint64_t wall_ns     = 0; ///< from the first fill to the last batch that was asked for
    std::uint64_t host_waits  = 0; ///< times that a producer had to wait for the device's event
    std::uint64_t allocations = 0; ///< of pinned and device memory, all before the first batch
    std::uint64_t pageable    = 0; ///< blocks that should be pinned and are not
    std::uint64_t producers   = 1; ///< threads that fill

    enum class bound { producer, transfer, compute };

    /// How long the slowest stage takes alone.
    [[nodiscard]] std::uint64_t slowest_ns() const noexcept {
        return std::max({fill_ns / producers, copy_ns, use_ns});
    }
    /// The slowest stage's own time to the time that all took: 1 where everything else is hidden
    /// behind it. Needs `loader_options::timing`.
    [[nodiscard]] double overlap() const noexcept {
        return wall_ns == 0 ? 0
                            : std::min(1.0, static_cast<double>(slowest_ns()) /
                                                static_cast<double>(wall_ns));
    }
    /// Bytes brought to the device by the time that it took: GB/s (1e9).
    [[nodiscard]] double gigabytes_per_second() const noexcept {
        return wall_ns == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(wall_ns);
    }

    /// The stage that the others wait for: the one that is busy for four fifths of the time, and
    /// where neither producing nor copying is, the loop itself.
    [[nodiscard]] bound verdict() const noexcept {
        std::uint64_t const fill = fill_ns / producers;
        std::uint64_t const most = std::max(fill, copy_ns);
        if (most < wall_ns - wall_ns / 5 || most < use_ns) { return bound::compute; }
        return fill >= copy_ns ? bound::producer : bound::transfer;
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
