// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_submission` submits an operation to the scheduler when its preparation ends.

#include <vram/sim/machine/sim_schedule.hpp>

namespace vram {
namespace detail {

/// Submits `op` to the scheduler in the destructor. If the preparation failed, so that `whole` is
/// still false, `op` has no effect and only completes in its place.
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
