// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `platform` is the set of types and static functions that vram needs of a device API.

#include <vram/concepts/memory_info.hpp>
#include <vram/concepts/pitched_copy.hpp>

#include <concepts> // same_as, regular, movable
#include <cstddef>
#include <cstdint>

namespace vram {

/// Streams. `stream` is a view that is passed by value; `own_stream` owns a stream. A
/// default-constructed view denotes the default stream of the current device. An `id` is unique in
/// the process and never used again.
template <class P>
concept has_streams =
    std::regular<typename P::stream> && std::movable<typename P::own_stream> &&
    requires(typename P::own_stream const& owner, typename P::stream s) {
        { owner.view() } -> std::same_as<typename P::stream>;
        { P::id(s) } -> std::same_as<std::uint64_t>;
        { P::device_of(s) } -> std::same_as<typename P::device>;
        { P::capturing(s) } -> std::same_as<bool>; // true if the stream is being captured
        // Blocks the calling thread until all work of the stream is complete.
        P::synchronize(s);
        P::call(s, static_cast<void (*)(void*)>(nullptr), static_cast<void*>(nullptr));
    };

/// Events. `record` places an event after the present work of a stream. `wait` makes a stream wait
/// for an event, and `synchronize` makes the calling thread wait. `done` returns true if the event
/// is complete. An event that was never recorded is complete.
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

/// Devices. A value of `device` names a device. Each host thread has a current device; a
/// `device_guard` changes it until it is destroyed.
template <class P>
concept has_devices = std::regular<typename P::device> && requires(typename P::device d) {
    { P::current_device() } -> std::same_as<typename P::device>;
    { P::memory(d) } -> std::same_as<memory_info>;
    P::synchronize(d);
    typename P::device_guard;
    requires std::constructible_from<typename P::device_guard, typename P::device>;
};

/// A platform with stream-ordered copies and fills. A copy takes any two kinds of memory: its
/// addresses determine the direction.
template <class P>
concept has_copies = requires(typename P::stream s, void* to, void const* from, std::size_t n,
                              pitched_copy const& c) {
    P::copy(s, to, from, n);
    P::copy(s, c);
    P::fill(s, to, std::byte{}, n);
};

/// Host threads. `thread` runs a callable with a given current device, and its destructor waits for
/// the callable. A `gate` is a mutex with a condition variable for these threads.
template <class P>
concept has_threads = requires {
    typename P::gate;
    typename P::thread;
};

/// Requires the types of the default resources of a platform: `P::device_resource` allocates device
/// memory, and `P::pinned_resource` pinned host memory.
template <class P>
concept has_memory = requires {
    typename P::device_resource;
    typename P::pinned_resource;
};

/// A device API. All functions are static, and any thread may call them. A failed call throws the
/// platform's error, such as `cuda_error`.
template <class P>
concept platform = has_devices<P> && has_streams<P> && has_events<P> && has_copies<P> &&
                   has_threads<P> && has_memory<P>;

} // namespace vram
