// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_deadlock_text` describes a deadlock of host threads; `sim_deadlock_victim` selects one.

#include <vram/sim/machine/sim_host.hpp>

#include <string> // string, to_string
#include <vector> // vector

namespace vram {
namespace detail {

/// Returns the waits of the threads `hosts`, which all wait for each other, as a text.
[[nodiscard]] inline std::string sim_deadlock_text(std::vector<sim_host*> const& hosts) {
    std::string text;
    for (sim_host const* const h : hosts) {
        text += (text.empty() ? "host thread " : ", host thread ") + std::to_string(h->number) +
                (h->locked_out        ? " waits for a lock"
                 : h->gate != nullptr ? " waits at a gate"
                                      : " waits for others to end");
    }
    return text;
}

/// Selects the thread of `hosts` that is to throw `sim_error{deadlock}`: a thread at a `sim_gate`
/// if there is one, else a thread at a `sim_lock`, else the last thread.
[[nodiscard]] inline sim_host* sim_deadlock_victim(std::vector<sim_host*> const& hosts) {
    sim_host* victim = nullptr;
    for (sim_host* const h : hosts) {
        // Prefers a thread at a `sim_gate` (a condition variable) to a thread at a lock. A thread
        // at a lock may be in a `noexcept` function, where the exception would end the process.
        if (h->gate == nullptr || (h->locked_out && victim != nullptr)) { continue; }
        victim = h;
    }
    return victim != nullptr ? victim : hosts.back();
}

} // namespace detail
} // namespace vram
