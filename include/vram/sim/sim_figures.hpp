// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_figures` holds the exact busy times, counts and bytes of a simulated device.

#include <vram/sim/sim_time.hpp>

#include <array> // array
#include <cstddef>
#include <cstdint>

namespace vram {

/// The part of a device (or the host) that executes an operation. `none` is for operations without
/// duration, such as events.
enum class sim_engine : unsigned char { compute, to_device, to_host, peer, host, none };

/// The number of engines that can be busy (all except `none`).
inline constexpr std::size_t sim_engines = 5;

/// Returns a set of engines of a device, one bit for each:
/// `sim_set(sim_engine::to_device, sim_engine::to_host)`.
template <class... Engines>
[[nodiscard]] constexpr unsigned sim_set(Engines... engines) noexcept {
    return ((1U << static_cast<unsigned>(engines)) | ... | 0U);
}

/// The set of all copy engines.
inline constexpr unsigned sim_copy_engines =
    sim_set(sim_engine::to_device, sim_engine::to_host, sim_engine::peer);

/// Counters and busy times of one device since `reset_figures` or the creation of the `sim_node`.
///
///     sim_figures const f = node.figures(); // f.overlap(): the time of copies during kernels
struct sim_figures {
    /// Indexed by a set of engines (`sim_set`): the time during which exactly these were busy.
    std::array<sim_time, std::size_t{1} << sim_engines> together{};
    /// For each engine, the sum of the durations of its completed operations.
    std::array<sim_time, sim_engines> work{};
    /// For each engine, the number of completed operations.
    std::array<std::uint64_t, sim_engines> operations{};

    std::uint64_t bytes_to_device = 0;
    std::uint64_t bytes_to_host   = 0;
    std::uint64_t bytes_peer      = 0;
    std::uint64_t bytes_within    = 0; ///< bytes of copies within the device, or within host memory
    std::uint64_t events_recorded = 0;
    /// Number of waits of a stream for an event (cudaStreamWaitEvent).
    std::uint64_t stream_waits = 0;
    std::uint64_t queries      = 0; ///< number of queries of a stream or event
    /// Number of waits of host threads for an event, a stream or the device, also in frees.
    std::uint64_t host_waits = 0;
    sim_time      host_waiting{}; ///< total simulated time of the waits in `host_waits`
    /// Number of allocations of device memory, with and without a stream.
    std::uint64_t allocations = 0;
    std::uint64_t frees       = 0;
    /// Number of allocations that were refused, for lack of memory or by an injected fault.
    std::uint64_t refused = 0;
    /// Allocated bytes of the device, rounded up to the granularity. Includes all memory that
    /// stream-ordered pools hold.
    std::size_t used      = 0;
    std::size_t peak_used = 0;

    /// Returns the time during which at least one engine of the set `any` was busy.
    [[nodiscard]] sim_time busy(unsigned any) const noexcept {
        sim_time sum{};
        for (std::size_t set = 0; set < together.size(); ++set) {
            if ((set & any) != 0) { sum += together[set]; }
        }
        return sum;
    }
    [[nodiscard]] sim_time busy(sim_engine engine) const noexcept { return busy(sim_set(engine)); }

    /// Returns the time during which an engine of the set `a` and an engine of the set `b` were
    /// busy at the same time.
    [[nodiscard]] sim_time overlap(unsigned a = sim_set(sim_engine::compute),
                                   unsigned b = sim_copy_engines) const noexcept {
        sim_time sum{};
        for (std::size_t set = 0; set < together.size(); ++set) {
            if ((set & a) != 0 && (set & b) != 0) { sum += together[set]; }
        }
        return sum;
    }
};

/// A completed operation, as an entry of `sim_node::trace`.
struct sim_trace {
    /// The name in reports: "copy host to device", "fill", the name of a kernel, ...
    char const*   name;
    std::uint64_t number;   ///< number of the operation, which reports show after `#`
    std::uint64_t stream;   ///< id of the stream of the operation
    int           device;   ///< index of the device that executed the operation
    sim_engine    engine;   ///< the engine that executed the operation
    sim_time      enqueued; ///< simulated time of the call that queued the operation
    sim_time      start;    ///< simulated time at which the operation began
    sim_time      end;      ///< simulated time at which the operation was complete
};

} // namespace vram
