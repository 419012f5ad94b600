// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_stream_hold` keeps the handle of a stream valid after the `sim_stream` was destroyed.

#include <vram/base/core/process_exit.hpp>
#include <vram/sim/sim_event.hpp>
#include <vram/sim/sim_stream_view.hpp>

#include <atomic>          // memory_order_relaxed
#include <mutex>           // unique_lock
#include <source_location> // source_location
#include <utility>

namespace vram {
namespace detail {

/// A counted reference to a stream. While a reference exists, the handle of the stream stays valid.
/// Simulates `cuda_stream_hold`. A hold of a default stream, a raw stream
/// (`sim_stream_options::raw`) or a destroyed stream is empty.
///
/// Failure   `record` throws `sim_error`.
/// Threads   Any thread may use it, as a `std::shared_ptr`.
class sim_stream_hold {
public:
    sim_stream_hold() = default;
    /// Adds a reference to `stream`. The caller must be using the stream, or have another
    /// reference.
    explicit sim_stream_hold(sim_stream_view stream) noexcept {
        if (stream.get() == nullptr || !stream.get()->announced) { return; }
        std::unique_lock const held{stream.get()->machine->mutex};
        if (stream.get()->id != 0) { add(stream.get()); }
    }
    sim_stream_hold(sim_stream_hold const& other) noexcept { add(other.state_); }
    sim_stream_hold(sim_stream_hold&& other) noexcept
        : state_{std::exchange(other.state_, nullptr)} {}
    sim_stream_hold& operator=(sim_stream_hold other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~sim_stream_hold() {
        if (state_ == nullptr || process_exit::began()) { return; }
        std::unique_lock const held{state_->machine->mutex};
        state_->machine->release_stream(*state_);
    }

    explicit operator bool() const noexcept { return state_ != nullptr; }
    /// Returns true if the `sim_stream` that owned the stream was destroyed.
    [[nodiscard]] bool ended() const noexcept { return state_ != nullptr && state_->ended; }
    /// Records `event` after all work of the stream, even if the `sim_stream` was destroyed. The
    /// hold must not be empty.
    void record(sim_event&           event,
                std::source_location where = std::source_location::current()) const {
        sim_call call{*state_->machine, sim_call_kind::record, state_->device, where};
        call.admit();
        sim_queue{call}.record(event.state(), *state_);
    }

private:
    void add(sim_stream_state* state) noexcept {
        state_ = state;
        if (state_ != nullptr) { state_->shares.fetch_add(1, std::memory_order_relaxed); }
    }

    sim_stream_state* state_ = nullptr;
};

} // namespace detail
} // namespace vram
