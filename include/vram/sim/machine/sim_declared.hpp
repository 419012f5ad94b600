// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expect_declared` compares an access of a kernel or host function with its declaration.

#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/machine/sim_schedule.hpp> // running_operation
#include <vram/sim/sim_range.hpp>

#include <cstdint>
#include <mutex>           // unique_lock
#include <source_location> // source_location

namespace vram {
namespace detail {

/// Returns true if the declared access permits the access `made`: all permit reads, and a write
/// permits all kinds.
[[nodiscard]] constexpr bool declares(sim_access declared, sim_access made) noexcept {
    return made == sim_access::read || declared == sim_access::write || declared == made;
}

/// Called for an access of the kind `made` to `range`. If a kernel or host function has not
/// declared the access for all of `range`, reports it from the first undeclared byte on. If
/// `simulated` is true, reports it only if that byte is in simulated memory.
///
/// Threads   The calling thread must not hold the machine's lock.
inline void expect_declared(sim_machine& machine, sim_range range, sim_access made, bool simulated,
                            std::source_location where = {}) {
    sim_operation const* const op     = running_operation;
    bool const                 copies = op != nullptr && op->task.copy != sim_copy_kind::none;
    if (op == nullptr || copies || range.bytes == 0) { return; }
    std::uintptr_t at = range.begin();
    for (bool found = true; found && at < range.end();) {
        found = false;
        for (sim_task::use const& use : op->task.uses) {
            if (use.range.begin() > at || at >= use.range.end()) { continue; }
            if (!declares(use.access, made)) { continue; }
            at    = use.range.end();
            found = true;
        }
    }
    if (at >= range.end()) { return; }
    std::unique_lock const held{machine.mutex};
    if (!machine.checker.on().declarations) { return; }
    if (simulated && !machine.memory.simulates(at)) { return; }
    using kind       = sim_event_of::kind;
    kind const other = made == sim_access::atomic ? kind::atomic : kind::read;
    kind const what  = made == sim_access::write ? kind::write : other;
    machine.checker.report({sim_mistake::undeclared_access,
                            {.name          = op->task.name,
                             .what          = what,
                             .host_function = op->task.host_function,
                             .number        = op->number,
                             .actor         = op->stream,
                             .device        = op->task.device,
                             .time          = op->enqueued,
                             .where         = where.line() != 0 ? where : op->task.where},
                            {},
                            at,
                            range.end() - at,
                            what == kind::write
                                ? "add the range to `writes` of the declaration; an access that "
                                  "is not declared is not checked"
                                : "add the range to `reads`, `writes` or `atomics` of the "
                                  "declaration; an access that is not declared is not checked"});
}

} // namespace detail
} // namespace vram
