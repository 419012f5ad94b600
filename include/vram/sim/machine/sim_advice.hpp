// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_advice` returns the sentence of a report that states the missing wait.

#include <vram/sim/sim_report.hpp> // sim_report, sim_event_of

#include <string> // string

namespace vram {
namespace detail {

/// Returns the advice for a race: the wait that would have ordered `r.second` after `r.first`.
/// `r.second_by` and `r.first_by` are the streams or threads.
[[nodiscard]] inline std::string sim_advice(sim_report const& r) {
    sim_event_of const& second = r.second;
    sim_event_of const& first  = r.first;
    std::string const   after  = "after " + first.label();
    bool const          frees  = second.what == sim_event_of::kind::release;
    if (first.host && second.host) {
        return r.second_by + " must wait for " + r.first_by + " (a gate, a join) " + after;
    }
    if (first.host) {
        return "the stream's work must be enqueued by a thread that has waited for " + r.first_by +
               " " + after;
    }
    if (second.host) {
        return "the host must wait for " + r.first_by + ", or for an event recorded on it, " +
               after + (frees ? ", before the free" : "");
    }
    std::string const wait =
        r.second_by + " must wait for an event recorded on " + r.first_by + " " + after;
    return frees ? "free the block on " + r.first_by + ", or before the free " + wait : wait;
}

} // namespace detail
} // namespace vram
