// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_error` is the simulated machine saying no.

#include <vram/base/error.hpp>         // report_error
#include <vram/base/report_caught.hpp> // report_caught

#include <cstddef>         // size_t
#include <source_location> // source_location
#include <string>          // string
#include <system_error>    // system_error, error_category

namespace vram {

/// What the simulated machine answers when it refuses; the counterparts of CUDA's error codes.
enum class sim_status {
    ok,
    invalid_value,      ///< an argument that no call takes
    invalid_device,     ///< no such device
    invalid_handle,     ///< a stream or event of another device, or none at all
    out_of_memory,      ///< memory of any kind; resources throw `out_of_memory` instead
    not_permitted,      ///< a call from inside a host callback or a kernel
    stream_capturing,   ///< asked or waited for a stream that is being captured
    capture_invalid,    ///< the capture was broken by an illegal call, or ends on the wrong stream
    capture_isolation,  ///< a captured stream would depend on work outside its graph
    capture_implicit,   ///< work on the legacy stream while a blocking stream is being captured
    captured_event,     ///< the event was last recorded in a capture that has ended
    peer_not_reachable, ///< the devices have no link
    copy_failed,        ///< a copy that went wrong
    launch_failed,      ///< a kernel that went wrong
    refused,            ///< no more events, streams or pinned pages
    device_lost,        ///< the device is gone: every call fails from now on
    deadlock,           ///< every participating thread waits for another
    unbacked,           ///< memory without contents was to be looked at
};

/// The name of a status, as it is printed.
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
    case sim_status::capture_isolation: return "capture would depend on work outside it";
    case sim_status::capture_implicit:
        return "the legacy stream depends on a blocking stream that is being captured";
    case sim_status::captured_event: return "the event was recorded in a capture that has ended";
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

/// The category of `sim_status` among the standard library's error codes.
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

/// A refused call, with its status and the place in the source that asked.
class sim_error : public std::system_error {
public:
    explicit sim_error(sim_status           status,
                       std::source_location where = std::source_location::current())
        : std::system_error{static_cast<int>(status), sim_category(), "vram::sim"}, where_{where} {}

    /// The same, with what it was that failed before its text.
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

/// Tells the error sink of the exception that is being handled, where memory at `p` comes back and
/// nothing may be thrown; with its status where the machine said no. `where` is whose call it was.
inline void report_sim_error(void const* p, std::size_t bytes,
                             std::source_location where) noexcept {
    report_caught({.kind    = error_kind::platform_error,
                   .pointer = p,
                   .bytes   = bytes,
                   .where   = where,
                   .caller  = where});
}

} // namespace vram
