// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_call` is one call into the simulated machine by this thread.

#include <vram/sim/sim_interrupt.hpp> // sim_interrupt
#include <vram/sim/sim_machine.hpp>   // sim_machine

#include <cstddef>         // size_t
#include <mutex>           // unique_lock, defer_lock
#include <optional>        // optional
#include <source_location> // source_location
#include <thread>          // this_thread
#include <utility>         // move

namespace vram {

/// Takes the thread's turn and the lock, pays for the call, and meets the faults planted for it.
///
/// Failure   `sim_error{not_permitted}` inside a kernel or a host callback;
///           `sim_error{device_lost}`
/// Cost      one lock; a few comparisons
class sim_call {
public:
    /// A call of `kind` about `device`, made at `where`, of `bytes` bytes where that means
    /// something.
    sim_call(sim_machine& machine, sim_call_kind kind, int device, std::source_location where,
             std::size_t bytes = 0);

    /// Throws what a planted fault or a lost device says about this call.
    void admit() const {
        if (refusal != sim_status::ok) { throw sim_error{refusal, where}; }
    }
    /// Who is asking, for the books of the checker. A new step of the host.
    [[nodiscard]] sim_event_of host_step(char const* name);
    /// Throws a report where the options say so.
    void tell();

    /// What a graph capture does not bear, of this thread or (captures in the global mode) of any:
    /// the captures are broken and the call is refused. Who holds a `sim_capture_guard` is
    /// refused nothing.
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
        m.turns.point(held, *host);
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
            .count  = host->knows[host->slot]};
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

inline void sim_call::tell() {
    if (auto report = machine.checker.take_thrown()) { throw sim_race{std::move(*report)}; }
}

} // namespace vram
