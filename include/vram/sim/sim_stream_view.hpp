// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_stream_view` is a stream of the simulated machine, passed by value.

#include <vram/concepts/diagnosed.hpp>    // refuse_stream
#include <vram/sim/sim_capture_guard.hpp> // sim_capture_guard
#include <vram/sim/sim_device.hpp>        // sim_device
#include <vram/sim/sim_interrupt.hpp>     // sim_interrupt

#include <concepts>        // derived_from
#include <cstdint>         // uint64_t
#include <source_location> // source_location

namespace vram {

struct sim_platform; // sim/sim_platform.hpp

/// One pointer. The default one is the default stream of the calling thread's current device,
/// whichever that is when it is used. A view of a destroyed stream may name a new stream, as in
/// CUDA; ids never do.
///
/// Failure   `sim_error`; what a captured stream must not be asked is refused, and its capture goes
///           on
/// Threads   any
class sim_stream_view {
public:
    using platform = sim_platform;

    sim_stream_view() = default;
    explicit sim_stream_view(sim_stream_state* state) noexcept : state_{state} {}
    /// A compile error that says what to write.
    template <detail::stream_of_another_platform<sim_platform> S>
        requires(!std::derived_from<S, sim_stream_view>)
    sim_stream_view(S const&) {
        detail::refuse_stream<S>();
    }
    sim_stream_view(int)            = delete; // a null pointer is no stream
    sim_stream_view(std::nullptr_t) = delete;

    /// The legacy default stream of a device: it waits for every blocking stream, and they for it.
    [[nodiscard]] static sim_stream_view legacy(sim_device device) {
        return sim_stream_view{device.machine().at(device.index()).legacy};
    }
    /// The calling thread's own default stream of a device: an ordinary blocking stream.
    [[nodiscard]] static sim_stream_view per_thread(sim_device device) {
        sim_machine&      machine = device.machine();
        detail::sim_self& self    = detail::self(machine.id);
        self.streams.resize(static_cast<std::size_t>(machine.options.devices));
        sim_stream_state*& mine = self.streams[static_cast<std::size_t>(device.index())];
        if (mine == nullptr) {
            sim_call call{machine, sim_call_kind::other, device.index(),
                          std::source_location::current()};
            mine = &machine.make_stream(*call.host, device.index(), true);
        }
        return sim_stream_view{mine};
    }

    /// Never that of another stream; one that was destroyed, and on which nobody has a hold, has
    /// none and throws.
    [[nodiscard]] std::uint64_t
    id(std::source_location where = std::source_location::current()) const {
        sim_stream_state const& s  = state();
        std::uint64_t const     id = s.id.load(std::memory_order_relaxed);
        if (id == 0) { throw sim_error{sim_status::invalid_handle, where}; }
        return id;
    }
    [[nodiscard]] sim_device device() const {
        sim_stream_state& s = state();
        return {*s.machine, s.device};
    }
    /// Whether a graph is being captured on it.
    [[nodiscard]] bool capturing() const {
        sim_interrupt::count();
        sim_stream_state&      s = state();
        std::unique_lock const held{s.machine->mutex};
        return s.capture != nullptr;
    }

    /// Whether all its work is done, at the calling thread's moment.
    [[nodiscard]] bool done(std::source_location where = std::source_location::current()) const {
        sim_stream_state&       s = state();
        sim_capture_guard const relaxed{*s.machine};
        sim_call                call{*s.machine, sim_call_kind::query, s.device, where};
        expect_no_capture(s, where);
        call.admit();
        return sim_wait{call}.done(s);
    }
    /// The calling thread waits for all its work.
    void synchronize(std::source_location where = std::source_location::current()) const {
        sim_stream_state&       s = state();
        sim_capture_guard const relaxed{*s.machine};
        sim_call                call{*s.machine, sim_call_kind::synchronize, s.device, where};
        expect_no_capture(s, where);
        sim_wait{call}.synchronize(s);
        call.tell();
    }

    /// The stream itself: what a default view means now.
    [[nodiscard]] sim_stream_state& state() const {
        if (state_ != nullptr) { return *state_; }
        sim_device const device = sim_device::current();
        bool const       private_ =
            device.machine().options.default_stream == sim_default_stream::per_thread;
        return *(private_ ? per_thread(device) : legacy(device)).state_;
    }
    /// The handle: null for the default stream.
    [[nodiscard]] sim_stream_state* get() const noexcept { return state_; }

    friend bool operator==(sim_stream_view, sim_stream_view) = default;

private:
    /// Asked or waited for, a captured stream would end its capture: so it is not.
    static void expect_no_capture(sim_stream_state const& s, std::source_location where) {
        if (s.capture) { throw sim_error{sim_status::stream_capturing, where}; }
    }

    sim_stream_state* state_ = nullptr;
};

} // namespace vram
