// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report_live` reports the blocks that a pool leaks. `on_lost_device` finds memory of a lost
/// device.

#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/machine/sim_parts.hpp>

#include <algorithm> // none_of
#include <cstdint>
#include <string> // string

namespace vram {
namespace detail {

/// Returns true if the block of a device, or the pinned block, that contains `p` belongs to a lost
/// device. No call can wait for such a device, or free its memory.
[[nodiscard]] inline bool on_lost_device(sim_machine& m, std::uintptr_t p) {
    if (std::ranges::none_of(m.devices, &sim_device_state::lost)) { return false; }
    sim_space* const space = m.memory.space_of(p);
    sim_block* const block = space != nullptr ? space->before(p) : nullptr;
    return block != nullptr && m.at(block->device).lost;
}

/// Reports a leak for each block of `parts` that is live in [begin, end). Called when a resource,
/// such as a pool, returns this memory to its upstream. Leaves out blocks that captured graphs may
/// use. Reports nothing if the record of allocations and frees has gaps, or if the memory is that
/// of a lost device.
inline void report_live(sim_machine& m, sim_parts& parts, std::uintptr_t begin,
                        std::uintptr_t end) {
    sim_checker& checker = m.checker;
    if (!checker.on().leaks || checker.unchecked.resource_events != 0) { return; }
    if (on_lost_device(m, begin)) { return; }
    parts.for_each(begin, end,
                   [&](sim_inner_block const& part, std::uintptr_t from, std::uintptr_t to) {
                       if (part.freed || part.graph || !part.is_whole(from, to - from)) { return; }
                       std::string const pool{part.resource};
                       checker.report({sim_mistake::leak,
                                       {},
                                       part.allocated,
                                       part.begin,
                                       part.bytes,
                                       "Free every block before the `" + pool + "` ends.",
                                       part.description()});
                   });
}

} // namespace detail
} // namespace vram
