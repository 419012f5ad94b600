// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_advice` returns the sentence of a report that states the missing wait.

#include <vram/sim/sim_report.hpp> // sim_event_of

#include <string> // string

namespace vram {
namespace detail {

/// Returns the advice for a race: the wait that would have ordered `second` after `first`.
[[nodiscard]] inline std::string sim_advice(sim_event_of const& second, sim_event_of const& first) {
    std::string const after =
        "after `" + std::string{first.name} + "` #" + std::to_string(first.number);
    if (first.host && second.host) {
        return "host thread " + std::to_string(second.actor) + " must wait for host thread " +
               std::to_string(first.actor) + " (a gate, a join) " + after;
    }
    if (first.host) {
        return "the stream's work must be enqueued by a thread that has waited for host thread " +
               std::to_string(first.actor) + " " + after;
    }
    std::string const stream = "stream " + std::to_string(first.actor);
    if (second.host) {
        return "the host must wait for " + stream + ", or for an event recorded on it, " + after;
    }
    return "stream " + std::to_string(second.actor) + " must wait for an event recorded on " +
           stream + " " + after;
}

} // namespace detail
} // namespace vram
