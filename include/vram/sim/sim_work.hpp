// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_work` declares a duration of work by the host.

#include <vram/sim/sim_node.hpp> // sim_node

#include <source_location> // source_location

namespace vram {

/// Advances the calling host thread's virtual clock (simulated time) by `duration`. Other threads
/// in virtual time (`sim_thread`) with an earlier clock run first.
inline void sim_work(sim_time             duration,
                     std::source_location where = std::source_location::current()) {
    sim_node::current().work(duration, where);
}

} // namespace vram
