// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_physical` is a piece of physical memory of a simulated device.

#include <vram/sim/sim_block.hpp> // sim_event_of, sim_history, interval_map

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// Physical memory without an address. It exists until its handle is destroyed and it has no
/// mapping.
struct sim_physical {
    std::size_t bytes  = 0;
    int         device = 0;
    /// Offset of its contents in `sim_frames`, if there are contents.
    std::uint64_t place    = 0;
    std::size_t   mappings = 0;    ///< number of addresses to which it is mapped
    bool          handle   = true; ///< the handle has not been destroyed
    sim_event_of  created{};
    /// Access history, through all addresses. Empty if no check needs it.
    interval_map<sim_history> history{};
};

} // namespace vram
