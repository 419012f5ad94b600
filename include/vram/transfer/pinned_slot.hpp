// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_slot` is a place for one batch on the host: a block of pinned memory, and whose it is.

#include <vram/base/requirements.hpp> // C++20

#include <atomic>   // atomic_ref
#include <concepts> // same_as, convertible_to
#include <cstddef>  // size_t, byte
#include <cstdint>  // int32_t, uint32_t, uint64_t

namespace vram {

/// Whether the device's time can be taken: `P::timed_event(device)` makes an event that takes it,
/// `P::elapsed(from, to)` are the nanoseconds between two that are done.
template <class P>
concept has_timing = requires(typename P::device d, typename P::event const& e) {
    { P::timed_event(d) } -> std::same_as<typename P::event>;
    { P::elapsed(e, e) } -> std::convertible_to<std::uint64_t>;
};

/// It is free again when the copy that reads or writes it is over, which is earlier than its slot
/// on the device is.
///
/// Threads   belongs to one side at a time
template <class Platform>
struct pinned_slot {
    using event  = typename Platform::event;
    using device = typename Platform::device;

    enum class state : unsigned char { empty, filling, filled, copying };

    pinned_slot(device where, bool timing)
        : begun{make(where, timing)}, left{make(where, timing)}, timed{timing} {}

    event begun; ///< its copy begins; recorded where copies are timed
    event left;  ///< its copy is over; not recorded where a mark says so, unless it is timed

    std::byte*  memory = nullptr;
    std::size_t size   = 0;
    std::size_t filled = 0; ///< bytes that are the source's; the rest is padding
    std::size_t index  = 0;
    std::size_t asked  = 0;

    std::uint64_t  flight = 0; ///< counts its copies
    std::uint64_t  turn   = 0; ///< of its copy among all
    std::uint32_t* mark =
        nullptr;            ///< pinned memory where the device writes the flight that is over
    std::size_t landed = 0; ///< copies that were seen to be over before they called back

    event const* over       = nullptr; ///< happens when its copy is over, or a later one is
    pinned_slot* next       = nullptr;
    void*        owner      = nullptr; ///< the ring, for who only gets the slot
    state        now        = state::empty;
    bool         timed      = false;
    bool         pageable   = false; ///< there was no more to be pinned
    bool         in_flight  = false; ///< `left` must be waited for before it is filled again
    bool         enqueued   = false; ///< its copy is, and so `left` can be asked
    bool         marked     = false; ///< the end of its copy will be
    bool         unsure     = false; ///< no event and no wait says when its copy is over
    bool         left_out   = false; ///< its batch is not copied
    bool         unmeasured = false; ///< between `begun` and `left` is a copy's time

    /// Whether the device has said that flight `which` is over, or a later one.
    [[nodiscard]] static bool is_marked(std::uint32_t* mark, std::uint64_t which) noexcept {
        std::uint32_t const seen = std::atomic_ref{*mark}.load(std::memory_order_acquire);
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
