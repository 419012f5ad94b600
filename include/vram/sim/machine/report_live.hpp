// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `report_live` reports the blocks that a pool leaks.

#include <vram/sim/machine/sim_checker.hpp>
#include <vram/sim/machine/sim_parts.hpp>

#include <cstdint>
#include <string> // string

namespace vram {
namespace detail {

/// Reports each block of `parts` that is live in [begin, end) as a leak, because the resource that
/// allocated it returns this memory to its upstream. Leaves out blocks that captured graphs may
/// use. Reports nothing if earlier events of resources were not recorded.
inline void report_live(sim_checker& checker, sim_parts& parts, std::uintptr_t begin,
                        std::uintptr_t end) {
    if (!checker.on().leaks || checker.unchecked.resource_events != 0) { return; }
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
