// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_figures` are the exact busy times, counts and bytes of a simulated device.

#include <vram/sim/sim_operation.hpp> // sim_engine
#include <vram/sim/sim_time.hpp>      // sim_time

#include <array>   // array
#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// A set of engines, for asking how long they were busy together.
using sim_engine_set = unsigned;

/// The set of the engines named: `sim_set(sim_engine::to_device, sim_engine::to_host)`.
template <class... Engines>
[[nodiscard]] constexpr sim_engine_set sim_set(Engines... engines) noexcept {
    return ((1U << static_cast<unsigned>(engines)) | ... | 0U);
}

/// Every engine that copies.
inline constexpr sim_engine_set sim_copy_engines =
    sim_set(sim_engine::to_device, sim_engine::to_host, sim_engine::peer);

/// Counts and times of one device since the node was made, or since they were reset.
struct sim_figures {
    /// How long exactly this set of engines was busy, by set.
    std::array<sim_time, std::size_t{1} << sim_engines> together{};
    /// How much work was done by each engine: the durations added up.
    std::array<sim_time, sim_engines> work{};
    /// Operations finished by each engine.
    std::array<std::uint64_t, sim_engines> operations{};

    std::uint64_t bytes_to_device = 0;
    std::uint64_t bytes_to_host   = 0;
    std::uint64_t bytes_peer      = 0;
    std::uint64_t bytes_within    = 0; ///< device to the same device
    std::uint64_t events_recorded = 0;
    std::uint64_t stream_waits    = 0; ///< times a stream was made to wait for an event
    std::uint64_t queries         = 0; ///< times the host asked whether work was done
    std::uint64_t host_waits = 0;  ///< times the host waited for an event, a stream or the device
    sim_time      host_waiting{};  ///< how long it did
    std::uint64_t allocations = 0; ///< of device memory, of all kinds
    std::uint64_t frees       = 0;
    std::uint64_t refused     = 0; ///< allocations for which there was no memory
    std::size_t   used        = 0; ///< bytes of the device taken now, rounded
    std::size_t   peak_used   = 0;

    /// How long any engine of the set was busy.
    [[nodiscard]] sim_time busy(sim_engine_set any) const noexcept {
        sim_time sum{};
        for (std::size_t set = 0; set < together.size(); ++set) {
            if ((set & any) != 0) { sum += together[set]; }
        }
        return sum;
    }
    [[nodiscard]] sim_time busy(sim_engine engine) const noexcept { return busy(sim_set(engine)); }

    /// How long an engine of `a` and one of `b` were busy at the same time.
    [[nodiscard]] sim_time overlap(sim_engine_set a = sim_set(sim_engine::compute),
                                   sim_engine_set b = sim_copy_engines) const noexcept {
        sim_time sum{};
        for (std::size_t set = 0; set < together.size(); ++set) {
            if ((set & a) != 0 && (set & b) != 0) { sum += together[set]; }
        }
        return sum;
    }
};

} // namespace vram
