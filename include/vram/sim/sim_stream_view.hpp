// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_stream_view` refers to a simulated stream. It is passed by value.

#include <vram/concepts/core/diagnosed.hpp> // refuse_stream
#include <vram/sim/machine/sim_capture_guard.hpp>
#include <vram/sim/sim_device.hpp>
#include <vram/sim/sim_interrupt.hpp>

#include <concepts> // derived_from
#include <cstdint>
#include <source_location> // source_location

namespace vram {

// Defined in sim/sim_platform.hpp.
struct sim_platform;

/// A reference to a stream. A default-constructed view means the default stream of the calling
/// thread's current device at the time of each use.
///
/// Failure   Members throw `sim_race` or `sim_error`, also for a query of a captured stream, or a
///           wait for it.
/// Threads   Any thread may use it.
class sim_stream_view {
public:
    using platform = sim_platform;

    sim_stream_view() = default;
    explicit sim_stream_view(detail::sim_stream_state* state) noexcept : state_{state} {}
    /// Does not compile: the argument is a stream of another platform. The error states the remedy.
    template <detail::stream_of_another_platform<sim_platform> S>
        requires(!std::derived_from<S, sim_stream_view>)
    sim_stream_view(S const&) {
        detail::refuse_stream<S>();
    }
    // A null pointer is not accepted as a stream.
    sim_stream_view(int)            = delete;
    sim_stream_view(std::nullptr_t) = delete;

    /// Returns a device's legacy default stream. It and all blocking streams wait for each other.
    [[nodiscard]] static sim_stream_view legacy(sim_device device) {
        return sim_stream_view{device.machine().at(device.index()).legacy};
    }
    /// Returns the per-thread default stream of the calling thread on `device`. It is a blocking
    /// stream: it is ordered with the legacy default stream.
    [[nodiscard]] static sim_stream_view per_thread(sim_device device) {
        detail::sim_machine& machine = device.machine();
        detail::sim_self&    self    = detail::self(machine.id);
        self.streams.resize(static_cast<std::size_t>(machine.options.devices));
        detail::sim_stream_state*& mine = self.streams[static_cast<std::size_t>(device.index())];
        if (mine == nullptr) {
            detail::sim_call call{machine, sim_call_kind::other, device.index(),
                                  std::source_location::current()};
            mine = &machine.make_stream(*call.host, device.index(), true);
            machine.checker.names.set(false, mine->id, "the per-thread default stream");
        }
        return sim_stream_view{mine};
    }

    /// Returns the id of the stream, which no other stream has. Throws `sim_error{invalid_handle}`
    /// if the handle is not valid.
    [[nodiscard]] std::uint64_t
    id(std::source_location where = std::source_location::current()) const {
        detail::sim_stream_state const& s  = state();
        std::uint64_t const             id = s.id.load(std::memory_order_relaxed);
        if (id == 0) { throw sim_error{sim_status::invalid_handle, where}; }
        return id;
    }
    [[nodiscard]] sim_device device() const {
        detail::sim_stream_state& s = state();
        return {*s.machine, s.device};
    }
    /// Returns true if the stream is being captured.
    [[nodiscard]] bool capturing() const {
        sim_interrupt::count();
        detail::sim_stream_state& s = state();
        std::unique_lock const    held{s.machine->mutex};
        return s.capture != nullptr;
    }

    /// Returns true if all work of the stream is complete; for the legacy default stream, also that
    /// of blocking streams.
    [[nodiscard]] bool done(std::source_location where = std::source_location::current()) const {
        detail::sim_stream_state&       s = state();
        detail::sim_capture_guard const relaxed{*s.machine};
        detail::sim_call                call{*s.machine, sim_call_kind::query, s.device, where};
        expect_no_capture(s, where);
        call.admit();
        return detail::sim_wait{call}.done(s);
    }
    /// Blocks until all work of the stream is complete; for the legacy default stream, also that of
    /// blocking streams.
    void synchronize(std::source_location where = std::source_location::current()) const {
        detail::sim_stream_state&       s = state();
        detail::sim_capture_guard const relaxed{*s.machine};
        detail::sim_call call{*s.machine, sim_call_kind::synchronize, s.device, where};
        expect_no_capture(s, where);
        detail::sim_wait{call}.synchronize(s);
        call.throw_report();
    }

    /// Returns the state of the stream. A default-constructed view is resolved to the default
    /// stream that it denotes now.
    [[nodiscard]] detail::sim_stream_state& state() const {
        if (state_ != nullptr) { return *state_; }
        sim_device const device = sim_device::current();
        bool const       private_ =
            device.machine().options.default_stream == sim_default_stream::per_thread;
        return *(private_ ? per_thread(device) : legacy(device)).state_;
    }
    /// Returns the handle, or null for a default-constructed view.
    [[nodiscard]] detail::sim_stream_state* get() const noexcept { return state_; }

    friend bool operator==(sim_stream_view, sim_stream_view) = default;

private:
    /// Throws `sim_error{stream_capturing}` if the stream is being captured. CUDA would invalidate
    /// the capture; vram refuses the call before that.
    static void expect_no_capture(detail::sim_stream_state const& s, std::source_location where) {
        if (s.capture) { throw sim_error{sim_status::stream_capturing, where}; }
    }

    detail::sim_stream_state* state_ = nullptr;
};

} // namespace vram
