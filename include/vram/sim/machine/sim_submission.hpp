// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_submission` submits an operation to the scheduler when its preparation ends.

#include <vram/sim/machine/sim_schedule.hpp>

namespace vram {
namespace detail {

/// Submits the operation `op` to the scheduler in the destructor. The caller sets `whole` when `op`
/// is completely prepared. If an exception prevents that, `op` is submitted without its effect, so
/// that it keeps its place in the stream.
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
