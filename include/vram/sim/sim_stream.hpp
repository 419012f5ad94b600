// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_stream` owns a stream of the simulated machine.

#include <vram/base/core/process_exit.hpp>  // process_exit
#include <vram/base/core/report_caught.hpp> // report_caught
#include <vram/base/error.hpp>              // report_error
#include <vram/sim/sim_stream_view.hpp>     // sim_stream_view

#include <source_location> // source_location
#include <utility>         // exchange

namespace vram {

/// The kind of a new stream. A blocking stream is ordered with the legacy default stream.
struct sim_stream_options {
    bool blocking = false;
    /// If true, the stream behaves as a plain `cudaStream_t`: resources are not notified when it is
    /// destroyed, so the caller must call `retire`.
    bool raw = false;
};

/// Owns a stream of the simulated device. Work that is queued when the owner is destroyed still
/// runs. Resources that used the stream are notified of the destruction, and may keep its handle
/// valid until they have recorded an event after its work. The handle of a destroyed `raw` stream
/// may name a new stream immediately.
///
/// Failure   The constructor throws `sim_error`.
/// Threads   Any thread may use the stream.
/// Cost      A new stream reuses the state of a destroyed one. Only if there is none, it allocates.
class sim_stream {
public:
    explicit sim_stream(sim_device device = sim_device::current(), sim_stream_options options = {},
                        std::source_location where = std::source_location::current()) {
        detail::process_exit::watch();
        detail::sim_call call{device.machine(), sim_call_kind::create_stream, device.index(),
                              where};
        call.admit();
        state_ = &device.machine().make_stream(*call.host, device.index(), options.blocking);
        state_->announced = !options.raw;
    }
    sim_stream(sim_stream&& other) noexcept : state_{std::exchange(other.state_, nullptr)} {}
    sim_stream& operator=(sim_stream&& other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~sim_stream() {
        if (state_ == nullptr || detail::process_exit::began()) { return; }
        try {
            detail::sim_call call{*state_->machine, sim_call_kind::other, state_->device,
                                  std::source_location::current()};
            state_->machine->end_stream(*state_);
        } catch (...) {
            detail::report_caught(
                error{.kind = error_kind::platform_error, .call = "destroying a sim_stream"});
        }
    }

    [[nodiscard]] sim_stream_view view() const noexcept { return sim_stream_view{state_}; }
    operator sim_stream_view() const noexcept { return view(); } // NOLINT: implicit on purpose

    void synchronize(std::source_location where = std::source_location::current()) const {
        view().synchronize(where);
    }
    [[nodiscard]] bool done(std::source_location where = std::source_location::current()) const {
        return view().done(where);
    }
    [[nodiscard]] std::uint64_t id() const { return view().id(); }

private:
    detail::sim_stream_state* state_ = nullptr;
};

} // namespace vram
