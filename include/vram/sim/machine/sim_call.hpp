// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_call` is the scope of one call of the simulated device by a host thread.

#include <vram/sim/machine/sim_calling_part.hpp> // line_of_call
#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/sim_interrupt.hpp>

#include <algorithm> // max
#include <cstddef>
#include <mutex>           // unique_lock, defer_lock
#include <optional>        // optional
#include <source_location> // source_location
#include <string>          // to_string
#include <thread>          // this_thread
#include <utility>

namespace vram {
namespace detail {

/// One call of the simulated device by a host thread. The constructor waits for the thread's turn,
/// locks the simulated machine, adds the cost of the call to simulated time, and looks up injected
/// faults.
///
/// Failure   The constructor throws `sim_error{not_permitted}` inside a kernel or a host function.
class sim_call {
public:
    /// Begins a call of the kind `kind` on `device`. `where`: the source line that reports show.
    /// `bytes`: the number of bytes of the call, which the rules for injected faults may test.
    sim_call(sim_machine& machine, sim_call_kind kind, int device, std::source_location where,
             std::size_t bytes = 0);

    /// Throws `sim_error` if an injected fault refuses this call, or if the device is lost.
    void admit() const {
        if (refusal != sim_status::ok) { throw sim_error{refusal, where}; }
    }
    /// Throws `sim_error{device_lost}` if memory of the kind `kind` on `device`, which this call
    /// uses, is memory of a lost device.
    void admit_memory(sim_kind kind, int device) const {
        if (kind == sim_kind::device && machine.at(device).lost) {
            throw sim_error{sim_status::device_lost, where};
        }
    }
    /// Counts a new step of the calling thread in its vector clock. Returns a description of the
    /// call for reports.
    [[nodiscard]] sim_event_of host_step(char const* name);
    /// Stores this call as the one that recorded the event `e`, for reports. Stores no call if
    /// races are not checked.
    void recorded(sim_event_state& e);
    /// Called before a wait for the event `e`, or a query of `e`. Reports a mistake if nothing
    /// orders the last `record` of `e` before this call.
    void expect_ordered(sim_event_state& e, char const* name);
    /// If `sim_options::on_report` is `throw_it`, throws the first report that was not thrown yet,
    /// as `sim_race`.
    void throw_report();
    /// Adds the cost of a call for `bytes` bytes to the simulated time of the calling thread, which
    /// first waits for the lock of the device's driver.
    void pay(sim_cost const& cost, std::size_t bytes = 0) noexcept { pay(cost.of(bytes)); }
    /// Adds `cost` to the simulated time of the calling thread, as the other overload does.
    void pay(sim_time cost) noexcept {
        sim_costs const& c = machine.options.costs;
        host->clock = machine.at(device_).driver.hold(host, host->clock, cost, c.driver_handoff,
                                                      c.driver_switch);
    }

    /// Called in each call that CUDA forbids during a capture, such as `cudaMalloc`. Invalidates
    /// the captures that this thread began, and all captures in global mode. If there is such a
    /// capture, throws `sim_error{stream_capturing}`. Ignores captures in relaxed mode. Does
    /// nothing if the thread is relaxed (`sim_self::relaxed`).
    void unsafe();
    /// If blocking streams of the device of the stream `legacy` are being captured, invalidates
    /// their captures and throws `sim_error{capture_implicit}`.
    void refuse_implicit(sim_stream_state const& legacy);

    sim_machine&                 machine;
    std::unique_lock<std::mutex> held;
    sim_host*                    host;
    std::source_location         where;
    std::optional<sim_fault>     fault   = {};
    sim_status                   refusal = sim_status::ok;

private:
    /// Returns the cost that the constructor of `sim_call` adds for a call of the kind `kind`.
    /// Returns null if the constructor adds no cost.
    [[nodiscard]] static sim_cost const* cost_of(sim_costs const& c, sim_call_kind kind) noexcept;
    /// Returns a description of this call for reports. This call gets no number of its own: the
    /// `number` of the description is that of the last operation or call.
    [[nodiscard]] sim_event_of step(char const* name, sim_event_of::kind what) const;

    int device_;
};

inline sim_call::sim_call(sim_machine& m, sim_call_kind kind, int device, std::source_location from,
                          std::size_t bytes)
    : machine{m},
      held{m.mutex, std::defer_lock},
      host{nullptr},
      where{line_of_call(kind, from)},
      device_{device} {
    if (detail::inside_effect) { throw sim_error{sim_status::not_permitted, where}; }
    sim_interrupt::count();
    held.lock();
    host = &m.caller();
    if (host->ordinary) {
        host->clock = std::max(host->clock, m.schedule.now());
    } else {
        m.turns.preemption_point(held, *host);
    }
    m.order_caller(*host);
    host->clock += m.options.call_cost;
    if (sim_cost const* const cost = cost_of(m.options.costs, kind)) {
        // Queries and waits of the host cost time, but do not take the lock of the driver.
        bool const looks = kind == sim_call_kind::query || kind == sim_call_kind::synchronize;
        if (looks) {
            host->clock += cost->of(bytes);
        } else {
            pay(*cost, bytes);
        }
    }
    fault               = m.faults.next(kind, device, bytes);
    sim_device_state& d = m.at(device);
    if (fault) {
        host->clock += fault->stall;
        if (fault->lost) {
            d.lost = true;
            note_sim_loss();
        }
        if (!fault->later && fault->slow == sim_time{} && fault->stall == sim_time{}) {
            refusal = fault->status;
        }
    }
    if (d.lost) { refusal = sim_status::device_lost; }
}

inline sim_cost const* sim_call::cost_of(sim_costs const& c, sim_call_kind kind) noexcept {
    switch (kind) {
    case sim_call_kind::pin: return &c.pin;
    case sim_call_kind::reserve: return &c.reserve;
    case sim_call_kind::create: return &c.create;
    case sim_call_kind::map: return &c.map;
    case sim_call_kind::create_stream: return &c.create_stream;
    case sim_call_kind::create_event: return &c.create_event;
    case sim_call_kind::record: return &c.record;
    case sim_call_kind::wait: return &c.wait;
    case sim_call_kind::query: return &c.query;
    case sim_call_kind::synchronize: return &c.synchronize;
    default: return nullptr;
    }
}

inline sim_event_of sim_call::host_step(char const* name) {
    host->advance();
    sim_event_of done = step(name, sim_event_of::kind::none);
    done.number       = machine.schedule.next_number();
    return done;
}

inline sim_event_of sim_call::step(char const* name, sim_event_of::kind what) const {
    return {.name   = name,
            .what   = what,
            .host   = true,
            .number = machine.schedule.count(),
            .actor  = host->number,
            .time   = host->clock,
            .where  = where,
            .slot   = host->slot,
            .count  = host->vclock[host->slot]};
}

inline void sim_call::recorded(sim_event_state& e) {
    e.recorded_by.what = sim_event_of::kind::none;
    if (!machine.checker.on().races) { return; }
    host->advance();
    e.recorded_by   = step("record", sim_event_of::kind::record);
    e.luck_reported = false;
}

inline void sim_call::expect_ordered(sim_event_state& e, char const* name) {
    sim_event_of const& record = e.recorded_by;
    if (record.what == sim_event_of::kind::none || e.luck_reported) { return; }
    if (!machine.checker.on().races || record.number < machine.checker.since) { return; }
    if (sim_machine::follows(host->vclock, record.slot, record.count)) { return; }
    e.luck_reported          = true;
    sim_event_of const mine  = step(name, sim_event_of::kind::wait);
    sim_names const&   names = machine.checker.names;
    machine.checker.report({sim_mistake::unordered_wait, mine, record, 0, 0,
                            names.of(mine) + " must wait for " + names.of(record) +
                                " (a gate, a join) after the record; a wait for an event that is "
                                "not recorded yet does not wait"});
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

inline void sim_call::refuse_implicit(sim_stream_state const& legacy) {
    sim_device_state const& d = machine.at(legacy.device);
    if (d.captured == 0) { return; }
    bool refused = false;
    for (sim_stream_state* const other : d.streams) {
        if (other == &legacy || !other->blocking || !other->capture) { continue; }
        other->capture->broken = refused = true;
    }
    if (refused) { throw sim_error{sim_status::capture_implicit, where}; }
}

inline void sim_call::throw_report() {
    if (auto report = machine.checker.log.take_thrown()) { throw sim_race{std::move(*report)}; }
}

} // namespace detail
} // namespace vram
