// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_statistics` are the times that a loader and its loop spent filling, copying and waiting.

#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/base/requirements.hpp>

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// Counts and times of one loader since its construction, over all passes. Times are in nanoseconds
/// of the platform's clock; on the simulated device, that is simulated time.
struct loader_statistics {
    std::uint64_t batches = 0; ///< number of batches that the loop has received
    /// Number of bytes of all batches that the loop has received, with padding.
    std::uint64_t bytes = 0;
    /// number of batches that were filled, but left out by `last_batch::drop`
    std::uint64_t left_out = 0;
    std::uint64_t fill_ns  = 0; ///< time spent to fill batches, summed over all producers
    /// device time of the loader's copies; needs `loader_options::timing`
    std::uint64_t copy_ns = 0;
    /// Device time from the delivery of a batch to the loop's stream until its release, summed over
    /// the batches. Needs `loader_options::timing`.
    std::uint64_t use_ns = 0;
    /// Time that producers waited because no block was free to be filled, summed over all
    /// producers.
    std::uint64_t slot_ns   = 0;
    std::uint64_t pinned_ns = 0; ///< host time that producers waited for the event of a copy
    /// Time that the loop waited for a batch that was not ready, including the time to enqueue its
    /// copy.
    std::uint64_t stall_ns = 0;
    /// Time from the first fill until the loop last received a batch or the end, summed over the
    /// passes.
    std::uint64_t wall_ns = 0;
    /// Number of times that a producer (a thread that fills batches) waited for the event of a
    /// copy.
    std::uint64_t host_waits = 0;
    /// Number of blocks of memory that the constructor allocated.
    std::uint64_t allocations = 0;
    /// Number of blocks that are pageable because no more memory could be pinned.
    std::uint64_t pageable  = 0;
    std::uint64_t producers = 1; ///< number of threads that fill batches

    /// The stages of a loop that can limit its speed: filling, copying, and using the batches.
    enum class bound { producer, transfer, compute };

    /// Returns the time of the slowest stage: filling (per producer), copying, or using. Without
    /// `loader_options::timing` only filling is known.
    [[nodiscard]] std::uint64_t slowest_ns() const noexcept {
        return detail::larger_of(fill_ns / producers, detail::larger_of(copy_ns, use_ns));
    }
    /// Returns the time of the slowest stage divided by the total time, at most 1. 1 means that all
    /// other work overlaps with that stage. Needs `loader_options::timing`.
    [[nodiscard]] double overlap() const noexcept {
        return wall_ns == 0 ? 0
                            : detail::smaller_of(1.0, static_cast<double>(slowest_ns()) /
                                                          static_cast<double>(wall_ns));
    }
    /// Returns the bytes of the received batches divided by the total time, in 1e9 bytes per
    /// second.
    [[nodiscard]] double gigabytes_per_second() const noexcept {
        return wall_ns == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(wall_ns);
    }

    /// Returns the stage that limits the loop. It is the slower one of filling and copying if that
    /// one takes at least four fifths of the total time, and at least as long as the use of the
    /// batches. Otherwise it is the use (`compute`).
    [[nodiscard]] bound verdict() const noexcept {
        std::uint64_t const fill = fill_ns / producers;
        std::uint64_t const most = detail::larger_of(fill, copy_ns);
        if (most < wall_ns - wall_ns / 5 || most < use_ns) { return bound::compute; }
        return fill >= copy_ns ? bound::producer : bound::transfer;
    }
};

/// Returns "producer-bound", "transfer-bound" or "compute-bound".
[[nodiscard]] constexpr char const* name(loader_statistics::bound b) noexcept {
    switch (b) {
    case loader_statistics::bound::producer: return "producer-bound";
    case loader_statistics::bound::transfer: return "transfer-bound";
    case loader_statistics::bound::compute: return "compute-bound";
    }
    return "unknown";
}

} // namespace vram
