// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_error` is the exception of a failed call of the simulated device.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error

#include <cstddef>
#include <source_location> // source_location
#include <string>          // string
#include <system_error>    // system_error, error_category

namespace vram {

/// The error codes of the simulated device, the counterparts of CUDA's.
enum class sim_status {
    ok,
    invalid_value,    ///< the call does not accept one of its arguments
    invalid_device,   ///< the simulated machine has no device with this index
    invalid_handle,   ///< a stream that was destroyed, or a stream or event of another device
    out_of_memory,    ///< not enough memory; resources throw `vram::out_of_memory` instead
    not_permitted,    ///< a device call by a kernel or host function; a collective in a capture
    stream_capturing, ///< a call that is illegal during a capture, such as a wait
    /// `sim_graph::end` failed. An illegal call invalidated the capture, the capture did not begin
    /// on this stream, or captured work of another stream was not joined to this stream.
    capture_invalid,
    /// A thread called `sim_graph::end` for a capture that another thread began. The capture has
    /// ended, and there is no graph.
    capture_wrong_thread,
    capture_isolation, ///< a captured stream would depend on work outside its graph
    /// Work on the legacy default stream, or a wait for or a query of it, while a blocking stream
    /// is captured.
    capture_implicit,
    /// A query of an event that was last recorded in a capture, or a wait for such an event outside
    /// the capture.
    captured_event,
    peer_not_reachable, ///< a copy between devices without a link
    copy_failed,        ///< a copy failed (an injected fault)
    launch_failed,      ///< a kernel failed (an injected fault)
    /// The call was refused by an injected fault, as if no more events, streams or pinned pages
    /// existed.
    refused,
    device_lost, ///< the device has failed; later calls on it fail, too
    deadlock,    ///< all threads in simulated time (`sim_thread`) wait for each other
    unbacked,    ///< access to the contents of memory although `sim_options::backed` is false
};

/// Returns the text of an error code.
[[nodiscard]] constexpr char const* name(sim_status status) noexcept {
    switch (status) {
    case sim_status::ok: return "ok";
    case sim_status::invalid_value: return "invalid value";
    case sim_status::invalid_device: return "invalid device";
    case sim_status::invalid_handle: return "invalid handle";
    case sim_status::out_of_memory: return "out of memory";
    case sim_status::not_permitted: return "not permitted inside a callback";
    case sim_status::stream_capturing: return "stream is being captured";
    case sim_status::capture_invalid: return "capture is invalid";
    case sim_status::capture_wrong_thread: return "another thread began the capture";
    case sim_status::capture_isolation: return "capture would depend on work outside it";
    case sim_status::capture_implicit:
        return "the legacy stream depends on a blocking stream that is being captured";
    case sim_status::captured_event: return "the event was last recorded in a capture";
    case sim_status::peer_not_reachable: return "no link between the devices";
    case sim_status::copy_failed: return "copy failed";
    case sim_status::launch_failed: return "launch failed";
    case sim_status::refused: return "refused";
    case sim_status::device_lost: return "device lost";
    case sim_status::deadlock: return "deadlock";
    case sim_status::unbacked: return "memory is not backed";
    }
    return "unknown";
}

/// The `std::error_category` of `sim_status`.
[[nodiscard]] inline std::error_category const& sim_category() noexcept {
    class category : public std::error_category {
        [[nodiscard]] char const* name() const noexcept override { return "vram.sim"; }
        [[nodiscard]] std::string message(int code) const override {
            return vram::name(static_cast<sim_status>(code));
        }
    };
    static category const one;
    return one;
}

/// The exception of a failed call, with its error code and the source location of the call.
class sim_error : public std::system_error {
public:
    explicit sim_error(sim_status           status,
                       std::source_location where = std::source_location::current())
        : std::system_error{static_cast<int>(status), sim_category(), "vram::sim"}, where_{where} {}

    /// Returns a copy of the error with `what`, the action that failed, in front of its text.
    [[nodiscard]] sim_error in(std::string const& what) const { return {status(), what, where_}; }

    [[nodiscard]] sim_status status() const noexcept {
        return static_cast<sim_status>(code().value());
    }
    [[nodiscard]] std::source_location where() const noexcept { return where_; }

private:
    sim_error(sim_status status, std::string const& what, std::source_location where)
        : std::system_error{static_cast<int>(status), sim_category(), what + ": vram::sim"},
          where_{where} {}

    std::source_location where_;
};

namespace detail {
/// Called in a `catch` block. Sends the caught exception to the error sink (the function for errors
/// that cannot be thrown). `p` and `bytes`: address and size of the block.
inline void report_sim_error(void const* p, std::size_t bytes,
                             std::source_location where) noexcept {
    report_caught(error{.kind    = error_kind::platform_error,
                        .pointer = p,
                        .bytes   = bytes,
                        .where   = where,
                        .caller  = where});
}

/// Returns the text of the `sim_status` with the number `code`, for the error sink.
[[nodiscard]] inline code_text sim_code_text(int code) noexcept {
    return {name(static_cast<sim_status>(code)), "the simulated device has failed"};
}
/// Called when a simulated device is lost: from then on, `report_error` reports the loss once,
/// instead of all errors that follow from it.
inline void note_sim_loss() noexcept {
    note_device_failure(static_cast<int>(sim_status::device_lost), sim_code_text);
}
/// Called when a node with a lost device ends: `report_error` reports every error again. Does
/// nothing if a device of another platform has failed.
inline void forget_sim_loss() noexcept {
    if (failed_text.load() == sim_code_text) { forget_device_failure(); }
}
} // namespace detail

} // namespace vram
