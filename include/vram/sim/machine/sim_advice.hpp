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

/// Returns the text for the stream of the operation `e` in advice. `by` is the name of this stream.
/// The program cannot use the stream on which `staging` copies, only the one that it passes.
[[nodiscard]] inline std::string sim_stream_of(sim_event_of const& e, std::string const& by) {
    return e.part == sim_part::staging && !e.host ? "the stream that is passed to staging" : by;
}

/// Returns special advice if a loader, an unloader or staging (parts of vram that copy data) did
/// one of the two racing operations. Returns an empty text if there is no such advice.
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
    std::string const   late   = "; or a batch is used after its release";
    if (!second.host && second.part != first.part && batches(first)) {
        std::string const item = batch(first.part, first.item);
        std::string const text = missing(item, sim_stream_of(second, r.second_by));
        return text +
               (first.part == sim_part::loader ? late : "; or " + item + " is used after `send`");
    }
    if (first.host || call == nullptr) { return {}; }
    std::string const by    = sim_stream_of(first, r.first_by);
    bool const        frees = second.what == sim_event_of::kind::release;
    if (frees && call->work.part == part_kind::loader && first.part != sim_part::loader) {
        return missing("a batch or result in this memory", by) +
               "; or the memory is used after its release";
    }
    if (!batches(second) || first.part == second.part) { return {}; }
    part_work const& work = call->work;
    if (second.part == sim_part::unloader && work.stream != first.actor) {
        return missing(batch(second.part, second.item), by);
    }
    if (second.part != sim_part::loader || work.before == part_work::none) { return {}; }
    std::string const item = batch(second.part, work.before);
    if (work.stream == first.actor) {
        return item + " is used after its release (`++`, `release`)";
    }
    return missing(item, by) + (first.part == sim_part::staging ? late : "");
}

/// The advice of a report of a use after free.
inline constexpr char const* sim_advice_if_freed =
    "the memory was freed before: free the block after its last use, on the stream of that use or "
    "on one that waits for it";

/// Returns advice for a race report: what the program can change so that `r.second` happens after
/// `r.first`. `call`: the call of vram that the calling thread is executing, or null.
[[nodiscard]] inline std::string sim_advice(sim_report const& r, part_call const* call = nullptr) {
    if (std::string part = sim_part_advice(r, call); !part.empty()) { return part; }
    sim_event_of const& second = r.second;
    sim_event_of const& first  = r.first;
    std::string const   by     = sim_stream_of(first, r.first_by);
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
        return "the host must wait for " + by + ", or for an event recorded on it, " + after +
               (frees ? ", before the free" : "");
    }
    if (first.graph && second.graph && first.actor == second.actor) { // two branches of a graph
        return "during the capture, the stream of " + second.label() +
               " must wait for an event recorded on the stream of " + first.label() + " after it";
    }
    std::string const wait = sim_stream_of(second, r.second_by) +
                             " must wait for an event recorded on " + by + " " + after;
    return frees ? "free the block on " + by + ", or before the free " + wait : wait;
}

} // namespace detail
} // namespace vram
