// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_advice` returns the sentence of a report that states the missing wait.

#include <vram/concepts/core/user_line.hpp> // part_call, part_work
#include <vram/sim/sim_report.hpp>          // sim_report, sim_event_of, sim_part

#include <cstddef>
#include <string> // string, to_string

namespace vram {
namespace detail {

/// Returns the special advice for a race in which a loader, an unloader or staging takes part.
/// Returns an empty text if the general advice of `sim_advice` applies.
[[nodiscard]] inline std::string sim_part_advice(sim_report const& r, part_call const* call) {
    auto const batches = [](sim_event_of const& e) {
        bool const known = e.item != sim_event_of::no_item;
        return !e.host && known && (e.part == sim_part::loader || e.part == sim_part::unloader);
    };
    auto const batch = [](sim_part part, std::size_t item) {
        return (part == sim_part::loader ? "batch " : "result ") + std::to_string(item);
    };
    auto const missing = [](std::string const& item, std::string const& by) {
        return "`record_stream(t)` is missing for " + item + "; t is " + by;
    };
    sim_event_of const& second = r.second;
    sim_event_of const& first  = r.first;
    if (second.part == sim_part::program && !second.host && batches(first)) {
        std::string const item = batch(first.part, first.item);
        return first.part == sim_part::loader
                   ? missing(item, r.second_by) + "; or a batch is used after its release"
                   : missing(item, r.second_by) + "; or " + item + " is used after `send`";
    }
    if (first.part != sim_part::program || first.host || call == nullptr) { return {}; }
    if (second.what == sim_event_of::kind::release && call->work.part == part_kind::loader) {
        return missing("a batch or result in this memory", r.first_by) +
               "; or the memory is used after its release";
    }
    if (second.part == sim_part::staging && !second.host) {
        return "the stream that is passed to staging must wait for an event recorded on " +
               r.first_by + " after " + first.label();
    }
    if (!batches(second)) { return {}; }
    part_work const& work = call->work;
    if (second.part == sim_part::unloader && work.stream != first.actor) {
        return missing(batch(second.part, second.item), r.first_by);
    }
    if (second.part != sim_part::loader || work.before == part_work::none) { return {}; }
    std::string const item = batch(second.part, work.before);
    return work.stream == first.actor ? item + " is used after its release (`++`, `release`)"
                                      : missing(item, r.first_by);
}

/// The advice of a report of a use after free.
inline constexpr char const* sim_advice_if_freed =
    "the memory was freed before: free the block after its last use, on the stream of that use or "
    "on one that waits for it";

/// Returns the advice of a race report: how the program could order `r.second` after `r.first`.
/// `call` is the call of vram in which the program is, or null.
[[nodiscard]] inline std::string sim_advice(sim_report const& r, part_call const* call = nullptr) {
    if (std::string part = sim_part_advice(r, call); !part.empty()) { return part; }
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
