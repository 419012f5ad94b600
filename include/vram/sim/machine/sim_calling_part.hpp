// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `calling_part` is the part of vram that calls the simulated device, for reports.

#include <vram/concepts/core/user_line.hpp> // part_call
#include <vram/sim/sim_faults.hpp>          // sim_call_kind

#include <source_location> // source_location

namespace vram {
namespace detail {

/// The call of a part of vram, such as a loader, in which the calling thread is, or null.
inline constinit thread_local part_call const* calling_part = nullptr;

/// Returns the source line that reports show for a call of the simulated device. If a part of vram
/// makes the call, this is the line of the program that called vram, if known. Otherwise, and for
/// allocations and mappings, it is `from`, the line of the call itself.
[[nodiscard]] inline std::source_location line_of_call(sim_call_kind        kind,
                                                       std::source_location from) noexcept {
    bool const keeps = kind == sim_call_kind::allocate || kind == sim_call_kind::allocate_host ||
                       kind == sim_call_kind::reserve || kind == sim_call_kind::create ||
                       kind == sim_call_kind::map;
    if (calling_part == nullptr || keeps || !calling_part->at.known()) { return from; }
    return calling_part->at.location();
}

} // namespace detail
} // namespace vram
