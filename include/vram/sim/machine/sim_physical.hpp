// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_physical` is a piece of physical memory of a simulated device.

#include <vram/sim/machine/sim_block.hpp> // sim_event_of, sim_history, interval_map

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A piece of physical memory. Exists until its handle is destroyed and it is mapped nowhere.
struct sim_physical {
    std::size_t bytes  = 0;
    int         device = 0;
    /// Offset in `sim_frames` (a file in memory) of the contents of this memory, if there are
    /// contents.
    std::uint64_t place    = 0;
    std::size_t   mappings = 0;    ///< number of addresses to which the memory is mapped
    bool          handle   = true; ///< false after the handle was destroyed
    sim_event_of  created{};
    /// Access history of this memory, through all addresses to which it is mapped. Empty if races
    /// were not checked at its creation.
    interval_map<sim_history> history{};
};

} // namespace detail
} // namespace vram
