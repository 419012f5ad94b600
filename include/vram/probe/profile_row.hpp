// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `profile_row` has the time and the memory of one scope of a `profile`.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <string> // string

namespace vram {

/// One row of a `profile`: the figures of one scope, a part of the program that `timed` marks. The
/// row counts all runs (executions) of the scope, or only those of one thread.
///
///     for (profile_row const& row : times.rows()) { total += row.device.total; }
struct profile_row {
    /// Statistics of the durations of a scope's runs (executions), in nanoseconds.
    struct times {
        std::uint64_t count = 0; ///< number of durations
        std::uint64_t total = 0; ///< sum of the durations, in nanoseconds
        std::uint64_t least = 0; ///< the shortest duration; 0 if there is none
        std::uint64_t most  = 0; ///< the longest duration; 0 if there is none

        /// Returns the average; 0 if there is no duration.
        [[nodiscard]] constexpr std::uint64_t mean() const noexcept {
            return count != 0 ? total / count : 0;
        }
        /// Adds one duration.
        constexpr void add(std::uint64_t time) noexcept {
            merge({.count = 1, .total = time, .least = time, .most = time});
        }
        /// Adds all durations of `other`.
        constexpr void merge(times const& other) noexcept {
            if (other.count == 0) { return; }
            if (count == 0 || other.least < least) { least = other.least; }
            if (other.most > most) { most = other.most; }
            count += other.count;
            total += other.total;
        }
    };

    std::string   name{};     ///< name passed to `timed`, or the name of the calling function
    std::size_t   depth  = 0; ///< number of scopes that contain this scope; 0 if there is none
    unsigned      thread = 0; ///< index of the thread; 0 if the row counts all threads
    std::uint64_t runs   = 0; ///< number of runs of the scope that have ended
    /// Durations of the scope's runs on the stream, measured by events. A run is not included if
    /// the stream was being captured at the start or the end of the run.
    times device{};
    times host{}; ///< durations on the host thread

    bool has_memory = false; ///< true if the memory of the scope was measured
    /// Live bytes at the end of a run minus those at its start, summed over all runs.
    std::ptrdiff_t live = 0;
    /// Largest increase of the live bytes from the start of a run to any moment in that run.
    std::size_t   peak          = 0;
    bool          peak_is_exact = true; ///< false if `peak` is an upper bound
    std::uint64_t allocations   = 0;    ///< number of allocations in all runs of the scope

    /// Adds the figures of `other`, another row of the same scope, such as that of another thread.
    /// `peak` becomes the larger of the two peaks.
    void merge(profile_row const& other) noexcept {
        runs += other.runs;
        device.merge(other.device);
        host.merge(other.host);
        has_memory    = has_memory || other.has_memory;
        peak_is_exact = peak_is_exact && other.peak_is_exact;
        live += other.live;
        if (other.peak > peak) { peak = other.peak; }
        allocations += other.allocations;
    }
};

} // namespace vram
