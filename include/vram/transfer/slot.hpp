// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot` is one place of a loader's ring: a pinned block, a device block, and the events between.

#include <concepts>  // same_as, convertible_to
#include <cstddef>   // size_t, byte
#include <cstdint>   // uint64_t
#include <exception> // exception_ptr
#include <vector>    // vector

namespace vram {

/// Whether copies can be timed on the device: `P::timed_event(device)` makes an event that takes
/// the time, `P::elapsed(from, to)` are the nanoseconds between two that are done.
template <class P>
concept has_timing = requires(typename P::device d, typename P::event const& e) {
    { P::timed_event(d) } -> std::same_as<typename P::event>;
    { P::elapsed(e, e) } -> std::convertible_to<std::uint64_t>;
};

/// The two edges that keep a slot safe: before the pinned block is filled again the producer
/// waits, on the host, for `copied`; before the device block is overwritten the copy stream
/// waits, on the device, for `released`. They are two conditions because the pinned block is free
/// earlier.
///
/// Threads   belongs to one side at a time: the producer, or the batch that holds it
template <class Platform>
struct slot {
    using event  = typename Platform::event;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    slot(device where, bool timing)
        : copied{make(where, timing)}, released{where}, begun{make(where, timing)}, timed{timing} {}

    event copied;   ///< the copy into the device block is over
    event released; ///< the consumer is done with the device block
    event begun;    ///< the copy begins; recorded where copies are timed

    std::byte*  pinned = nullptr;
    std::byte*  memory = nullptr; ///< on the device
    std::size_t size   = 0;       ///< bytes of the batch; 0 where there is none
    std::size_t index  = 0;       ///< of the batch

    std::vector<stream> others;          ///< further streams that use the batch
    std::vector<event>  others_released; ///< their events, kept for the next time

    std::exception_ptr error; ///< instead of a batch
    slot*              next      = nullptr;
    bool               timed     = false;
    bool               in_flight = false; ///< `copied` was recorded and not waited for
    bool               in_use    = false; ///< `released` was recorded and nobody has waited for it

private:
    static event make(device where, bool timing) {
        if constexpr (has_timing<Platform>) {
            if (timing) { return event{Platform::timed_event(where)}; }
        }
        return event{where};
    }
};

} // namespace vram
