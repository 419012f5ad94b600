// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_touch` declares a memory access of the calling host thread to the checker.

#include <vram/sim/sim_node.hpp>  // sim_node
#include <vram/sim/sim_range.hpp> // sim_range, sim_access

#include <source_location> // source_location

namespace vram {

/// Declares that the calling host thread reads or writes `range` now. The access is reported if it
/// conflicts with a copy or kernel that is not ordered before it, if the memory is device memory,
/// or if it was freed.
///
///     sim_touch({staging, n}, sim_access::write);
///     std::memcpy(staging, source, n);
///
/// Threads   Any thread may call it.
/// Cost      The cost of one declared range of an operation.
inline void sim_touch(sim_range range, sim_access access,
                      std::source_location where = std::source_location::current()) {
    detail::sim_machine& m = sim_node::current().machine();
    detail::sim_call     call{m, sim_call_kind::other, 0, where};
    sim_event_of const   step = call.host_step("host");
    m.checker.touch(step, call.host->vclock, range, access, false, true);
    call.throw_report();
}

} // namespace vram
