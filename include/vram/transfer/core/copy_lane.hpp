// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_lane` is a stream for copies that can call a function after each copy.

#include <vram/concepts/completion_flags.hpp>
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/order/core/wait_or_report.hpp>
#include <vram/transfer/core/pinned_slot.hpp>

#include <concepts> // same_as
#include <cstdint>
#include <optional> // optional, nullopt

namespace vram {
namespace detail {

/// A platform with stream priorities. `P::stream_of(device, priority)` creates such a stream.
template <class P>
concept has_priorities = requires(typename P::device d, int priority) {
    { P::stream_of(d, priority) } -> std::same_as<typename P::own_stream>;
};

/// A stream for copies, and a second stream for the callbacks that report complete copies: in the
/// copy stream, a callback would delay the next copy. The copy stream is the caller's, or a new
/// non-blocking stream.
///
/// Threads   Any thread may call.
template <class Platform>
class copy_lane {
public:
    using stream = typename Platform::stream;
    using event  = typename Platform::event;
    using device = typename Platform::device;

    /// Uses the caller's stream `given` for copies, or else creates a stream on `where` with the
    /// priority `priority` (lower is more urgent).
    explicit copy_lane(device where, std::optional<stream> given = std::nullopt, int priority = 0)
        : own_{given ? nullptr : &where, priority},
          given_{given.value_or(stream{})},
          held_{given ? hold_stream<Platform>(*given) : stream_hold<Platform>{}},
          calls_{where} {}

    [[nodiscard]] stream view() const { return own_.made ? own_.made->view() : given_; }

    /// Enqueues a call of `function(argument)`, which a thread of the driver makes when the event
    /// `over` is complete. `function` must not call the platform.
    void call_after(event const& over, void (*function)(void*), void* argument) {
        Platform::wait(calls_.view(), over);
        Platform::call(calls_.view(), function, argument);
    }
    /// Makes the device write the completion flag of the pinned block `p` (a word in pinned memory)
    /// after the block's copy. Sets `p.flagged` to true, or to false if this is not possible.
    void set_flag(pinned_slot<Platform>& p) {
        p.flagged = false;
        if constexpr (completion_flags<Platform>) {
            if (p.flag == nullptr) { return; }
            p.flagged = Platform::mark(view(), p.flag, static_cast<std::uint32_t>(p.copy_number));
        }
    }
    /// Blocks the calling thread until the copy stream has executed all copies. Returns false if
    /// the waits for the stream and device failed.
    [[nodiscard]] bool finish() noexcept {
        stream const on = view();
        return wait_or_report<Platform>(on, [on] { return Platform::device_of(on); });
    }
    /// Blocks the calling thread until all callbacks that report complete copies have returned.
    /// Returns false if this cannot be ensured, because the driver reports an error.
    [[nodiscard]] bool drain() noexcept {
        return wait_or_report<Platform>(calls_.view(),
                                        [this] { return Platform::device_of(calls_.view()); });
    }
    /// Blocks the calling thread until all copies on the copy stream are complete and all callbacks
    /// have returned. Throws errors of the platform.
    void await_all() {
        Platform::synchronize(view());
        Platform::synchronize(calls_.view());
    }

private:
    using own_stream = typename Platform::own_stream;

    struct made_or_not {
        made_or_not(device const* where, int priority) {
            if (where == nullptr) { return; }
            if constexpr (has_priorities<Platform>) {
                if (priority != 0) { made.emplace(Platform::stream_of(*where, priority)); }
            }
            if (!made) { made.emplace(*where); }
        }
        std::optional<own_stream> made;
    };

    made_or_not own_;
    stream      given_;
    /// Keeps the handle of the caller's copy stream valid, even if the program destroys the stream
    /// before this object. Empty if vram did not create the caller's stream.
    stream_hold<Platform> held_;
    own_stream            calls_;
};

} // namespace detail
} // namespace vram
