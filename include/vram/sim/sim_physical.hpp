// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_physical` is a piece of a simulated device's memory that has no address of its own.

#include <vram/sim/sim_block.hpp> // sim_event_of, sim_history, interval_map

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// It is there until its handle was destroyed and it is mapped nowhere.
struct sim_physical {
    std::size_t               bytes    = 0;
    int                       device   = 0;
    std::uint64_t             place    = 0;    ///< of its contents, where the node is backed
    std::size_t               mappings = 0;    ///< addresses that it is mapped to
    bool                      handle   = true; ///< not destroyed
    sim_event_of              created{};
    interval_map<sim_history> history{}; ///< at whatever address; empty while nobody checks
};

} // namespace vram
