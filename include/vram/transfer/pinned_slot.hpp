// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_slot` is a place for one batch on the host: a block of pinned memory, its state and its
/// events.

#include <vram/base/requirements.hpp> // C++20

#include <atomic>   // atomic_ref
#include <concepts> // same_as, convertible_to
#include <cstddef>  // size_t, byte
#include <cstdint>  // int32_t, uint32_t, uint64_t

namespace vram {

/// A platform that can measure time on the device: `P::timed_event(device)` makes an event with a
/// time stamp, and `P::elapsed(from, to)` returns the nanoseconds between two complete events.
template <class P>
concept has_timing = requires(typename P::device d, typename P::event const& e) {
    { P::timed_event(d) } -> std::same_as<typename P::event>;
    { P::elapsed(e, e) } -> std::convertible_to<std::uint64_t>;
};

/// Pinned block for one batch. It is free again when the copy that reads or writes it is complete,
/// which is earlier than the end of the batch's use on the device.
///
/// Threads   A slot belongs to one side at a time, according to its state.
template <class Platform>
struct pinned_slot {
    using event  = typename Platform::event;
    using device = typename Platform::device;

    enum class state : unsigned char { empty, filling, filled, copying };

    pinned_slot(device where, bool timing)
        : begun{make(where, timing)}, copied{make(where, timing)}, timed{timing} {}

    event begun;  ///< start of the copy; recorded only if copies are timed
    event copied; ///< end of the copy; not recorded if a completion flag suffices

    std::byte*  memory = nullptr;
    std::size_t size   = 0;
    std::size_t filled = 0; ///< bytes that are the source's; the rest is padding
    std::size_t index  = 0;
    /// Index that the source was asked for.
    std::size_t asked = 0;

    std::uint64_t copy_number = 0; ///< number of its last copy, counted from 1
    std::uint64_t sequence    = 0; ///< number of its copy among the copies of all slots
    /// Completion flag in pinned memory: at the end of a copy, the device writes `copy_number`
    /// there.
    std::uint32_t* flag            = nullptr;
    std::size_t    completed_early = 0; ///< copies found complete by polling before their callbacks

    /// Event that completes when its copy, or a later one, is complete.
    event const* over      = nullptr;
    pinned_slot* next      = nullptr;
    void*        owner     = nullptr; ///< the ring, for a callback that receives only the slot
    state        now       = state::empty;
    bool         timed     = false;
    bool         pageable  = false; ///< the slot has pageable memory, because pinning failed
    bool         in_flight = false; ///< `copied` must be waited for before it is filled again
    bool         enqueued  = false; ///< its copy is enqueued, so its event may be queried
    bool         flagged   = false; ///< a completion flag reports the end of its copy
    /// Neither an event nor a wait proves that its copy is complete.
    bool end_unknown = false;
    bool left_out    = false; ///< the batch is left out, so it is not copied
    /// `begun` and `copied` enclose a copy, and its time is not read yet.
    bool unmeasured = false;

    /// Returns true if the completion flag shows that copy `which`, or a later one, is complete.
    [[nodiscard]] static bool flag_reached(std::uint32_t* flag, std::uint64_t which) noexcept {
        std::uint32_t const seen = std::atomic_ref{*flag}.load(std::memory_order_acquire);
        return static_cast<std::int32_t>(seen - static_cast<std::uint32_t>(which)) >= 0;
    }

private:
    static event make(device where, bool timing) {
        if constexpr (has_timing<Platform>) {
            if (timing) { return event{Platform::timed_event(where)}; }
        }
        return event{where};
    }
};

} // namespace vram
