// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `copy_lane` is the stream that carries copies, and the way to hear that one is over.

#include <vram/concepts/completion_flags.hpp> // completion_flags
#include <vram/concepts/stream_hold.hpp>      // stream_hold, hold_stream
#include <vram/layer/sure_wait.hpp>           // sure_wait
#include <vram/transfer/pinned_slot.hpp>      // pinned_slot

#include <concepts> // same_as
#include <cstdint>  // uint32_t
#include <optional> // optional, nullopt

namespace vram {

/// Whether streams have priorities: `P::stream_of(device, priority)` makes a non-blocking one.
template <class P>
concept has_priorities = requires(typename P::device d, int priority) {
    { P::stream_of(d, priority) } -> std::same_as<typename P::own_stream>;
};

/// A non-blocking stream of its own, or one that the user gives, for copies; and a second one for
/// the calls that say that a copy is over. A call in the lane itself would hold up the next copy
/// until it returns.
///
///     platform::copy(lane.view(), to, from, bytes);
///     platform::record(over, lane.view());
///     lane.call_after(over, land, &slot);     // on a thread of the driver's
///
/// Failure   what the platform throws
/// Threads   any
/// Cost      `call_after` makes a stream wait and enqueues a host function; nobody waits on the
///           host
template <class Platform>
class copy_lane {
public:
    using stream = typename Platform::stream;
    using event  = typename Platform::event;
    using device = typename Platform::device;

    /// `priority`: of its own stream, where streams have one; lower is more urgent.
    explicit copy_lane(device where, std::optional<stream> given = std::nullopt, int priority = 0)
        : own_{given ? nullptr : &where, priority},
          given_{given.value_or(stream{})},
          held_{given ? hold_stream<Platform>(*given) : stream_hold<Platform>{}},
          calls_{where} {}

    [[nodiscard]] stream view() const { return own_.made ? own_.made->view() : given_; }

    /// Calls `function(argument)` when `over` has happened. It may call nothing of the platform.
    void call_after(event const& over, void (*function)(void*), void* argument) {
        Platform::wait(calls_.view(), over);
        Platform::call(calls_.view(), function, argument);
    }
    /// Has the device say in memory that the copy that `p` is in, the last in the lane, is over,
    /// where it can: `p.marked`.
    void mark(pinned_slot<Platform>& p) {
        p.marked = false;
        if constexpr (completion_flags<Platform>) {
            if (p.mark == nullptr) { return; }
            p.marked = Platform::mark(view(), p.mark, static_cast<std::uint32_t>(p.flight));
        }
    }
    /// The host waits until no copy, and no mark after it, is under way. False: nobody knows.
    [[nodiscard]] bool finish() noexcept {
        stream const on = view();
        return sure_wait<Platform>(on, [on] { return Platform::device_of(on); });
    }
    /// The host waits until every call has been made. False: nobody knows.
    [[nodiscard]] bool drain() noexcept {
        return sure_wait<Platform>(calls_.view(),
                                   [this] { return Platform::device_of(calls_.view()); });
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

    made_or_not           own_;
    stream                given_;
    stream_hold<Platform> held_; ///< the one that was given may end before its user asks for it
    own_stream            calls_;
};

} // namespace vram
