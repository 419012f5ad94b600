// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_host_copies` says that the host copies memory here, which takes its time.

#include <vram/sim/sim_touch.hpp> // sim_touch
#include <vram/sim/sim_work.hpp>  // sim_work

#include <cstddef>         // size_t
#include <source_location> // source_location

namespace vram {

/// Declares that the calling thread reads `bytes` bytes at `from` and writes them to `to`; either
/// is null where it is not memory. Then it is busy, as `sim_options::host_copy_bandwidth` says.
///
/// Threads   any
/// Cost      as two declared ranges of an operation
inline void sim_host_copies(void* to, void const* from, std::size_t bytes,
                            std::source_location where = std::source_location::current()) {
    if (from != nullptr) { sim_touch({from, bytes}, sim_access::read, where); }
    if (to != nullptr) { sim_touch({to, bytes}, sim_access::write, where); }
    std::size_t const bandwidth = sim_node::current().options().host_copy_bandwidth;
    if (bandwidth != 0) { sim_work(sim_transfer_time(bytes, bandwidth), where); }
}

} // namespace vram
