// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform` is what a machine with streams must be able to do for everything above to run on it.

#include <vram/concepts/memory_info.hpp>  // memory_info
#include <vram/concepts/pitched_copy.hpp> // pitched_copy

#include <concepts> // same_as, regular, movable
#include <cstddef>  // size_t, byte
#include <cstdint>  // uint64_t

namespace vram {

/// Streams: `stream` is a light view that is passed by value, `own_stream` makes one and destroys
/// it. A default-constructed view is the default stream of the current device. `id` is never used
/// twice in a process, even where the stream's handle is; the default streams have ids too, one per
/// thread where they are per thread.
template <class P>
concept has_streams =
    std::regular<typename P::stream> && std::movable<typename P::own_stream> &&
    requires(typename P::own_stream const& owner, typename P::stream s) {
        { owner.view() } -> std::same_as<typename P::stream>;
        { P::id(s) } -> std::same_as<std::uint64_t>;
        { P::device_of(s) } -> std::same_as<typename P::device>;
        { P::capturing(s) } -> std::same_as<bool>; // a graph is being captured on it
        P::synchronize(s);                         // the host waits for all its work
        P::call(s, static_cast<void (*)(void*)>(nullptr), static_cast<void*>(nullptr));
    };

/// Events: a place in a stream's order. `record` takes the place, `wait` makes a stream wait for it
/// (the host goes on), `done` asks, `synchronize` makes the host wait. An event never recorded is
/// done.
template <class P>
concept has_events =
    std::movable<typename P::event> &&
    std::constructible_from<typename P::event, typename P::device> &&
    requires(typename P::event& e, typename P::event const& c, typename P::stream s) {
        P::record(e, s);
        P::wait(s, c);
        { P::done(c) } -> std::same_as<bool>;
        P::synchronize(c);
    };

/// Streams that can be asked themselves, for less than an event costs: whether a handle still means
/// the stream of this id, no graph is being captured on it, and all its work is done.
template <class P>
concept queries_streams = requires(typename P::stream s, std::uint64_t id) {
    { P::idle(s, id) } -> std::same_as<bool>;
};

/// Devices: plain values. Each host thread has a current one; `device_guard` changes it for a
/// scope.
template <class P>
concept has_devices = std::regular<typename P::device> && requires(typename P::device d) {
    { P::current_device() } -> std::same_as<typename P::device>;
    { P::memory(d) } -> std::same_as<memory_info>;
    P::synchronize(d);
    typename P::device_guard;
    requires std::constructible_from<typename P::device_guard, typename P::device>;
};

/// Copies, in stream order, between any two places the platform knows (the direction is read off
/// the addresses).
template <class P>
concept has_copies = requires(typename P::stream s, void* to, void const* from, std::size_t n,
                              pitched_copy const& c) {
    P::copy(s, to, from, n);
    P::copy(s, c);
    P::fill(s, to, std::byte{}, n);
};

/// Host threads: `thread` runs a callable with its device set and joins when destroyed; a `gate`
/// hands work between such threads. Both are `vram::worker` and `vram::gate` where time is real.
template <class P>
concept has_threads = requires {
    typename P::gate;
    typename P::thread;
};

/// The kinds of memory: the resources that a part takes when its user names none.
template <class P>
concept has_memory = requires {
    typename P::device_resource;
    typename P::pinned_resource;
};

/// A machine. All calls are static; each throws the platform's error (`cuda_error`, `sim_error`)
/// when the machine refuses, and may be made from any thread.
template <class P>
concept platform = has_devices<P> && has_streams<P> && has_events<P> && has_copies<P> &&
                   has_threads<P> && has_memory<P>;

} // namespace vram
