// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_work` declares the duration of the host's work.

#include <vram/sim/sim_node.hpp> // sim_node

#include <source_location> // source_location

namespace vram {

/// The calling host thread is busy for `duration` of virtual time: its clock moves on, and threads
/// whose clock is earlier go first.
inline void sim_work(sim_time             duration,
                     std::source_location where = std::source_location::current()) {
    sim_node::current().work(duration, where);
}

} // namespace vram
