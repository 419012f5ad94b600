// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_call` is the scope of one call of the simulated device by a host thread.

#include <vram/sim/machine/sim_machine.hpp> // sim_machine
#include <vram/sim/sim_interrupt.hpp>       // sim_interrupt

#include <algorithm>       // max
#include <cstddef>         // size_t
#include <mutex>           // unique_lock, defer_lock
#include <optional>        // optional
#include <source_location> // source_location
#include <thread>          // this_thread
#include <utility>         // move

namespace vram {
namespace detail {

/// One call of the simulated device by a host thread: an object that exists during the call. Its
/// constructor waits until the scheduler lets the thread run, locks the machine, adds the cost of
/// the call to the thread's virtual clock, and looks up injected faults.
///
/// Failure   The constructor throws `sim_error{not_permitted}` inside a kernel or a host function.
/// Cost      One lock and a few comparisons.
class sim_call {
public:
    /// Begins a call of `kind` on `device`. `bytes` is the size of an allocation or copy, for
    /// predicates of injected faults. The source location is used in reports.
    sim_call(sim_machine& machine, sim_call_kind kind, int device, std::source_location where,
             std::size_t bytes = 0);

    /// Throws `sim_error` if a fault is injected into this call, or the device is lost.
    void admit() const {
        if (refusal != sim_status::ok) { throw sim_error{refusal, where}; }
    }
    /// Increments the calling thread's counter in its vector clock, and returns a description of
    /// this call for the checker.
    [[nodiscard]] sim_event_of host_step(char const* name);
    /// Throws the first report that has not been thrown yet as `sim_race`, if
    /// `sim_options::on_report` is `throw_it`.
    void throw_report();

    /// Called for calls that are illegal during a capture by this thread, or by any thread if the
    /// mode of the capture is global. If there is such a capture, invalidates it and throws
    /// `sim_error{stream_capturing}`. Does nothing if the calling thread has a `sim_capture_guard`.
    void unsafe();

    sim_machine&                 machine;
    std::unique_lock<std::mutex> held;
    sim_host*                    host;
    std::source_location         where;
    std::optional<sim_fault>     fault   = {};
    sim_status                   refusal = sim_status::ok;
};

inline sim_call::sim_call(sim_machine& m, sim_call_kind kind, int device, std::source_location from,
                          std::size_t bytes)
    : machine{m}, held{m.mutex, std::defer_lock}, host{&m.turns.outside}, where{from} {
    if (detail::inside_effect) { throw sim_error{sim_status::not_permitted, where}; }
    sim_interrupt::count();
    detail::sim_self const& self = detail::self(m.id);
    held.lock();
    if (self.host != nullptr) {
        host = self.host;
        m.turns.preemption_point(held, *host);
    } else {
        host->clock = std::max(host->clock, m.schedule.now());
    }
    host->clock += m.options.call_cost;
    fault               = m.faults.next(kind, device, bytes);
    sim_device_state& d = m.at(device);
    if (fault) {
        host->clock += fault->stall;
        d.lost = d.lost || fault->lost;
        if (!fault->later && fault->slow == sim_time{} && fault->stall == sim_time{}) {
            refusal = fault->status;
        }
    }
    if (d.lost) { refusal = sim_status::device_lost; }
}

inline sim_event_of sim_call::host_step(char const* name) {
    host->advance();
    return {.name   = name,
            .host   = true,
            .number = machine.schedule.next_number(),
            .actor  = host->number,
            .time   = host->clock,
            .where  = where,
            .slot   = host->slot,
            .count  = host->vclock[host->slot]};
}

inline void sim_call::unsafe() {
    bool refused = false;
    for (sim_graph_state* const g : machine.captures) {
        detail::sim_self const& self = detail::self(machine.id);
        bool const              mine =
            g->owner == std::this_thread::get_id() || g->mode == sim_capture_mode::global;
        if (self.relaxed || g->mode == sim_capture_mode::relaxed || !mine) { continue; }
        g->broken = refused = true;
    }
    if (refused) { throw sim_error{sim_status::stream_capturing, where}; }
}

inline void sim_call::throw_report() {
    if (auto report = machine.checker.take_thrown()) { throw sim_race{std::move(*report)}; }
}

} // namespace detail
} // namespace vram
