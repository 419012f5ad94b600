// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_stream` owns a stream of the simulated machine.

#include <vram/base/error.hpp>          // report_error
#include <vram/base/process_exit.hpp>   // process_exit
#include <vram/base/report_caught.hpp>  // report_caught
#include <vram/sim/sim_stream_view.hpp> // sim_stream_view

#include <source_location> // source_location
#include <utility>         // exchange

namespace vram {

/// What kind of stream: a blocking one is in order with the legacy default stream.
struct sim_stream_options {
    bool blocking = false;
    bool raw = false; ///< nobody is told of its end, as of a plain `cudaStream_t`: see `retire`
};

/// A stream that ends with its owner. Its work still runs. Resources that remember it learn that it
/// has ended, and may keep the handle until they have an event behind its work; that of a `raw` one
/// may be a new stream's at once.
///
/// Failure   `sim_error`
/// Threads   any
/// Cost      no allocation once as many were there before
class sim_stream {
public:
    explicit sim_stream(sim_device device = sim_device::current(), sim_stream_options options = {},
                        std::source_location where = std::source_location::current()) {
        process_exit::watch();
        sim_call call{device.machine(), sim_call_kind::create_stream, device.index(), where};
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
        if (state_ == nullptr || process_exit::began()) { return; }
        try {
            sim_call call{*state_->machine, sim_call_kind::other, state_->device,
                          std::source_location::current()};
            state_->machine->end_stream(*state_);
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "destroying a sim_stream"});
        }
    }

    [[nodiscard]] sim_stream_view view() const noexcept { return sim_stream_view{state_}; }
    operator sim_stream_view() const noexcept { return view(); } // NOLINT: a stream is its view

    void synchronize(std::source_location where = std::source_location::current()) const {
        view().synchronize(where);
    }
    [[nodiscard]] bool done(std::source_location where = std::source_location::current()) const {
        return view().done(where);
    }
    [[nodiscard]] std::uint64_t id() const { return view().id(); }

private:
    sim_stream_state* state_ = nullptr;
};

} // namespace vram
