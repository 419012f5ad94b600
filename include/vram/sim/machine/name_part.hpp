// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `name_part` names an operation after the work of the part of vram that queues it.

#include <vram/concepts/core/user_line.hpp> // part_work, part_kind
#include <vram/sim/machine/sim_calling_part.hpp>
#include <vram/sim/machine/sim_operation.hpp> // sim_task
#include <vram/sim/sim_report.hpp>            // sim_part

#include <cstdint>

namespace vram {
namespace detail {

/// Returns the value of the public enumeration `sim_part` for `part`.
[[nodiscard]] constexpr sim_part part_of(part_kind part) noexcept {
    switch (part) {
    case part_kind::program: break;
    case part_kind::handle: return sim_part::handle;
    case part_kind::loader: return sim_part::loader;
    case part_kind::unloader: return sim_part::unloader;
    case part_kind::staging: return sim_part::staging;
    }
    return sim_part::program;
}
/// Stores in `task` which part of vram, such as a loader, queues the operation. If the operation is
/// a copy, also stores the name that this part gave to its work, if any.
inline void name_part(sim_task& task) noexcept {
    if (calling_part == nullptr) { return; }
    part_work const& work = calling_part->work;
    task.part             = part_of(work.part);
    if (task.copy == sim_copy_kind::none || work.name == nullptr) { return; }
    task.name = work.name;
    if (work.item != part_work::none) { task.item = static_cast<std::uint32_t>(work.item); }
}

} // namespace detail
} // namespace vram
