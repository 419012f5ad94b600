// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_submission` submits an operation to the scheduler when its preparation ends.

#include <vram/sim/machine/sim_schedule.hpp>

namespace vram {
namespace detail {

/// The destructor always submits `op` to the scheduler. If `whole` is still false, the preparation
/// failed: `op` first loses its task, and then only completes.
struct sim_submission {
    ~sim_submission() {
        if (!whole) { op.task = {.device = op.task.device}; }
        schedule.submit(op);
    }
    sim_schedule&  schedule;
    sim_operation& op;
    bool           whole = false;
};

} // namespace detail
} // namespace vram
