// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_statistics` are the times that a loader and its loop spent filling, copying and waiting.

#include <vram/base/core/smaller_of.hpp> // larger_of, smaller_of
#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {

/// Counts and times of one loader since its construction, over all passes. Times are in nanoseconds
/// of the platform's clock; on the simulated device, that is simulated time.
struct loader_statistics {
    std::uint64_t batches = 0; ///< number of batches that the loop has received
    /// Number of bytes of all batches that the loop has received, with padding.
    std::uint64_t bytes = 0;
    /// number of batches that were filled, but left out by `last_batch::drop`
    std::uint64_t left_out = 0;
    /// Host time in which the source wrote batches, or enqueued their copies, summed over all
    /// threads that fill batches.
    std::uint64_t fill_ns = 0;
    /// device time of the loader's copies; needs `loader_options::timing`
    std::uint64_t copy_ns = 0;
    /// Device time from the delivery of a batch to the loop's stream until its release, summed over
    /// the timed batches that are no longer in use. Needs `loader_options::timing`.
    std::uint64_t use_ns = 0;
    /// Time that threads waited for a free block before they filled the next batch, summed over all
    /// threads that fill batches.
    std::uint64_t slot_ns = 0;
    /// Host time that filling threads waited for the event of a pinned block's last copy before
    /// they refilled the block. Usually 0 if `loader_options::call_back` is true.
    std::uint64_t pinned_ns = 0;
    /// Time that the loop waited for batches that were not ready, including time in which the
    /// loop's thread itself copied or filled.
    std::uint64_t stall_ns = 0;
    /// Time from a pass's first fill until the loop receives the last batch or finds that none
    /// follows, summed over the passes over the source.
    std::uint64_t wall_ns = 0;
    /// Number of waits that `pinned_ns` counts: a filling thread waited for the event of a copy.
    std::uint64_t host_waits = 0;
    /// Number of blocks of memory that the constructor allocated.
    std::uint64_t allocations = 0;
    /// Number of blocks that are pageable because no more memory could be pinned.
    std::uint64_t pageable = 0;
    /// Number of threads that fill batches; 1 if only the loop's thread does.
    std::uint64_t producers = 1;

    /// The stages of a loop that can limit its speed: filling, copying, and using the batches.
    enum class bound { producer, transfer, compute };

    /// Returns the total nanoseconds of the slowest stage: filling, copying, or using the batches.
    /// Without `loader_options::timing`, only filling is known.
    [[nodiscard]] std::uint64_t slowest_ns() const noexcept {
        return detail::larger_of(fill_ns / producers, detail::larger_of(copy_ns, use_ns));
    }
    /// Returns `slowest_ns()` divided by `wall_ns`, at most 1; 0 if `wall_ns` is 0. The result is 1
    /// if all other work overlaps with the slowest stage.
    [[nodiscard]] double overlap() const noexcept {
        return wall_ns == 0 ? 0
                            : detail::smaller_of(1.0, static_cast<double>(slowest_ns()) /
                                                          static_cast<double>(wall_ns));
    }
    /// Returns the bytes of the received batches divided by the total time, in 1e9 bytes per
    /// second; 0 if `wall_ns` is 0.
    [[nodiscard]] double gigabytes_per_second() const noexcept {
        return wall_ns == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(wall_ns);
    }

    /// Returns the stage that limits the speed of the loop. This is the slower one of filling
    /// (`producer`) and copying (`transfer`), if it takes at least 80 % of `wall_ns` and at least
    /// `use_ns`. Otherwise returns `compute`. The time of filling is `fill_ns / producers`. The
    /// result has no meaning until the loop has received a batch.
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
