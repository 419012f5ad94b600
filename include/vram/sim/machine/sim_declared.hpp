// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expect_declared` compares an access of a kernel with the memory that the kernel declares.

#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/machine/sim_schedule.hpp> // running_operation
#include <vram/sim/sim_range.hpp>

#include <cstdint> // uintptr_t
#include <mutex>   // unique_lock

namespace vram {
namespace detail {

/// If the calling thread runs the body of a kernel, and the kernel does not declare all bytes of
/// `range`, reports the first undeclared bytes. Memory that is not simulated needs no declaration.
///
/// Threads   Any thread may call it. The calling thread must not hold the machine's lock.
/// Cost      One comparison outside a kernel; one for each declared range inside.
inline void expect_declared(sim_machine& machine, sim_range range) {
    sim_operation const* const op = running_operation;
    if (op == nullptr || op->task.engine != sim_engine::compute || op->task.copy) { return; }
    if (range.bytes == 0) { return; }
    std::uintptr_t at = range.begin();
    for (bool found = true; found && at < range.end();) {
        found = false;
        for (sim_task::use const& use : op->task.uses) {
            if (use.range.begin() > at || at >= use.range.end()) { continue; }
            at    = use.range.end();
            found = true;
        }
    }
    if (at >= range.end()) { return; }
    std::unique_lock const held{machine.mutex};
    if (!machine.checker.on().declarations || !machine.memory.simulates(at)) { return; }
    machine.checker.report({sim_mistake::undeclared_access,
                            {.name   = op->task.name,
                             .what   = sim_event_of::kind::read,
                             .number = op->number,
                             .actor  = op->stream,
                             .device = op->task.device,
                             .time   = op->enqueued,
                             .where  = op->task.where},
                            {},
                            at,
                            range.end() - at,
                            "add the range to `reads` or `writes` of the kernel's declaration; an "
                            "access that is not declared is not checked"});
}

} // namespace detail
} // namespace vram
