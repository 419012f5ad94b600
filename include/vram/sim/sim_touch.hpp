// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_touch` declares that the host reads or writes memory here.

#include <vram/sim/sim_node.hpp>  // sim_node
#include <vram/sim/sim_range.hpp> // sim_range, sim_access

#include <source_location> // source_location

namespace vram {

/// Declares a host access to pinned or managed memory: a copy that still reads or writes it, a
/// kernel that nobody waited for, device memory and freed memory are reported.
///
///     sim_touch({staging, n}, sim_access::write);
///     std::memcpy(staging, source, n);
///
/// Threads   any
/// Cost      as one declared range of an operation
inline void sim_touch(sim_range range, sim_access access,
                      std::source_location where = std::source_location::current()) {
    sim_machine&       m = sim_node::current().machine();
    sim_call           call{m, sim_call_kind::other, 0, where};
    sim_event_of const who = call.host_step("host");
    m.checker.touch(who, call.host->knows, range, access, false, true);
    call.tell();
}

} // namespace vram
