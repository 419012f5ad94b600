// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_event` owns an event of the simulated device.

#include <vram/base/core/process_exit.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/sim/sim_stream_view.hpp>

#include <source_location> // source_location
#include <utility>

namespace vram {

/// Owns an event of the simulated device. After `record`, the event is complete when all work that
/// the stream had at that time is complete. A second `record` replaces the first.
///
/// Failure   Members throw `sim_race` or `sim_error`, for example for an event that was last
///           recorded in a capture.
/// Threads   Any thread may use the event.
/// Cost      `record` copies one vector clock.
class sim_event {
public:
    explicit sim_event(sim_device device = sim_device::current(), bool timed = false,
                       std::source_location where = std::source_location::current()) {
        detail::process_exit::watch();
        detail::sim_call call{device.machine(), sim_call_kind::create_event, device.index(), where};
        call.admit();
        state_ = &device.machine().make_event(device.index(), timed);
    }
    sim_event(sim_event&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
    sim_event& operator=(sim_event&& other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~sim_event() {
        if (state_ == nullptr || detail::process_exit::began()) { return; }
        std::unique_lock const held{state_->machine->mutex};
        state_->machine->destroy_event(*state_);
    }

    /// Records the event after all work that `stream` has so far.
    void record(sim_stream_view      stream = {},
                std::source_location where  = std::source_location::current()) {
        detail::sim_stream_state& s = stream.state();
        detail::sim_call          call{*s.machine, sim_call_kind::record, s.device, where};
        call.admit();
        detail::sim_queue{call}.record(*state_, s);
    }
    /// Makes later work of `stream` wait for the event. The host does not wait. If the event was
    /// never recorded, the call does nothing.
    void wait(sim_stream_view      stream,
              std::source_location where = std::source_location::current()) const {
        detail::sim_stream_state& s = stream.state();
        detail::sim_call          call{*s.machine, sim_call_kind::wait, s.device, where};
        call.admit();
        detail::sim_queue{call}.wait(s, *state_);
    }
    /// Returns true if the event is complete at the simulated time of the calling thread, or if it
    /// was never recorded.
    [[nodiscard]] bool done(std::source_location where = std::source_location::current()) const {
        detail::sim_capture_guard const relaxed{*state_->machine};
        detail::sim_call call{*state_->machine, sim_call_kind::query, state_->device, where};
        call.admit();
        return detail::sim_wait{call}.done(*state_);
    }
    /// Blocks the calling thread in simulated time until the event is complete.
    void synchronize(std::source_location where = std::source_location::current()) const {
        detail::sim_capture_guard const relaxed{*state_->machine};
        detail::sim_call call{*state_->machine, sim_call_kind::synchronize, state_->device, where};
        detail::sim_wait{call}.synchronize(*state_);
        call.throw_report();
    }
    /// Waits for a timed event, and returns the simulated time at which it was complete.
    [[nodiscard]] sim_time
    time(std::source_location where = std::source_location::current()) const {
        synchronize(where);
        std::unique_lock const held{state_->machine->mutex};
        return state_->when;
    }

    [[nodiscard]] detail::sim_event_state& state() const noexcept { return *state_; }

private:
    detail::sim_event_state* state_ = nullptr;
};

} // namespace vram
