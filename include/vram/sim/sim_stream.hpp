// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_stream` owns a stream of the simulated machine.

#include <vram/base/core/process_exit.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/sim/sim_stream_view.hpp>

#include <source_location> // source_location
#include <string>          // string
#include <string_view>     // string_view
#include <utility>

namespace vram {

namespace detail {
/// Sets the name of a host thread or a stream in reports: the text `what`, then `name` in quotes.
/// `host`: true for a thread. `actor`: number of the thread or stream. The caller holds the lock.
inline void name_actor(sim_machine& m, bool host, std::uint64_t actor, char const* what,
                       std::string_view name) noexcept {
    try {
        m.checker.names.set(host, actor, std::string{what} + " \"" + std::string{name} + "\"");
    } catch (...) {} // without memory, reports use the number
}
} // namespace detail

/// The kind of a new stream. A blocking stream is ordered with the legacy default stream.
struct sim_stream_options {
    bool blocking = false;
    /// If true, the stream behaves as a plain `cudaStream_t`: resources do not notice its
    /// destruction. Before you destroy it, call `retire(stream)` of each resource that has used it.
    bool raw = false;
    /// Name of the stream in reports; if it is empty, they contain a number. The stream copies the
    /// text.
    std::string_view name = {};
};

/// Owns a stream of the simulated device. Queued work still runs after the destruction. Except with
/// `sim_stream_options::raw`, no new stream gets the handle while a resource still needs it.
///
/// Failure   The constructor throws `sim_error`.
/// Threads   Any thread may use the stream.
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
        if (!options.name.empty()) {
            detail::name_actor(device.machine(), false, state_->id, "stream", options.name);
        }
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

/// Sets the name of a stream, of the calling thread, or of memory in reports.
///
///     sim_name(stream, "copies");
///     sim_name({weights, n}, "weights");
///     sim_name("producer"); // the calling thread
///
/// Threads   Any thread may call it.
/// Cost      The node keeps the newest 4096 names of streams and threads.
inline void sim_name(sim_stream_view stream, std::string_view name) {
    detail::sim_stream_state& s = stream.state();
    std::unique_lock const    held{s.machine->mutex};
    detail::name_actor(*s.machine, false, s.id, "stream", name);
}
/// Names the memory `range` in reports, until its addresses are allocated again.
inline void sim_name(sim_range range, std::string_view name) {
    detail::sim_machine&   m = sim_node::current().machine();
    std::unique_lock const held{m.mutex};
    m.checker.names.set(range, std::string{name});
}
/// Sets the name of the calling thread in reports. Threads outside simulated time share one name,
/// unless `sim_host_order::checked` is set.
inline void sim_name(std::string_view name) {
    detail::sim_machine&   m = sim_node::current().machine();
    std::unique_lock const held{m.mutex};
    detail::name_actor(m, true, m.caller().number, "host thread", name);
}

} // namespace vram
