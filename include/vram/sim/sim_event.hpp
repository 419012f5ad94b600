// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_event` owns a place in a stream's order.

#include <vram/base/error.hpp>          // report_error
#include <vram/base/process_exit.hpp>   // process_exit
#include <vram/sim/sim_stream_view.hpp> // sim_stream_view

#include <source_location> // source_location
#include <utility>         // swap, exchange

namespace vram {

/// An event. Recorded, it is the moment when all work that the stream has so far is done; recorded
/// again, it is another moment, and the waits made before keep the old one.
///
/// Failure   `sim_error{refused}` where no event can be made (a planted fault);
///           `sim_error{invalid_handle}` when it is recorded on a stream of another device
/// Threads   any
/// Cost      recording copies one vector clock; a timed event is also an operation of its own
class sim_event {
public:
    explicit sim_event(sim_device device = sim_device::current(), bool timed = false,
                       std::source_location where = std::source_location::current()) {
        process_exit::watch();
        sim_call call{device.machine(), sim_call_kind::create_event, device.index(), where};
        call.admit();
        state_ = &device.machine().make_event(device.index(), timed);
    }
    sim_event(sim_event&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
    sim_event& operator=(sim_event&& other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~sim_event() {
        if (state_ == nullptr || process_exit::began()) { return; }
        std::unique_lock const held{state_->machine->mutex};
        state_->machine->destroy_event(*state_);
    }

    /// Takes the place after everything that `stream` was given so far.
    void record(sim_stream_view      stream = {},
                std::source_location where  = std::source_location::current()) {
        sim_stream_state& s = stream.state();
        sim_call          call{*s.machine, sim_call_kind::record, s.device, where};
        call.admit();
        sim_queue{call}.record(*state_, s);
    }
    /// Makes `stream` wait for the place; the host goes on. Never recorded: no wait.
    void wait(sim_stream_view      stream,
              std::source_location where = std::source_location::current()) const {
        sim_stream_state& s = stream.state();
        sim_call          call{*s.machine, sim_call_kind::wait, s.device, where};
        call.admit();
        sim_queue{call}.wait(s, *state_);
    }
    /// Whether it has happened, at the calling thread's moment. Never recorded: yes.
    [[nodiscard]] bool done(std::source_location where = std::source_location::current()) const {
        sim_capture_guard const relaxed{*state_->machine};
        sim_call                call{*state_->machine, sim_call_kind::query, state_->device, where};
        call.admit();
        return sim_wait{call}.done(*state_);
    }
    /// The calling thread waits for it.
    void synchronize(std::source_location where = std::source_location::current()) const {
        sim_capture_guard const relaxed{*state_->machine};
        sim_call call{*state_->machine, sim_call_kind::synchronize, state_->device, where};
        sim_wait{call}.synchronize(*state_);
        call.tell();
    }
    /// When a timed event happened; waits for it.
    [[nodiscard]] sim_time
    time(std::source_location where = std::source_location::current()) const {
        synchronize(where);
        std::unique_lock const held{state_->machine->mutex};
        return state_->when;
    }

    [[nodiscard]] sim_event_state& state() const noexcept { return *state_; }

private:
    sim_event_state* state_ = nullptr;
};

} // namespace vram
