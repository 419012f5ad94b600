// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `pinned_slot` is a block of pinned memory for one batch, with its state and its events.

#include <vram/base/requirements.hpp>

#include <atomic>   // atomic_ref
#include <concepts> // same_as, convertible_to
#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A platform that can measure time on the device: `timed_event(device)` makes an event,
/// `elapsed(from, to)` returns the nanoseconds between two.
template <class P>
concept has_timing = requires(typename P::device d, typename P::event const& e) {
    { P::timed_event(d) } -> std::same_as<typename P::event>;
    { P::elapsed(e, e) } -> std::convertible_to<std::uint64_t>;
};

/// A pinned block for one batch of a loader or one result of an unloader, with its state and its
/// events.
///
/// Threads   One thread at a time accesses a slot; its state determines which.
template <class Platform>
struct pinned_slot {
    using event  = typename Platform::event;
    using device = typename Platform::device;

    enum class state : unsigned char { empty, filling, filled, copying };

    pinned_slot(device where, bool timing)
        : begun{make(where, timing)}, copied{make(where, timing)}, timed{timing} {}

    event begun;  ///< event before the copy; recorded only if copies are timed
    event copied; ///< event after the copy; recorded if copies are timed or no flag shows its end

    std::byte*  memory = nullptr;
    std::size_t size   = 0;
    /// Number of bytes of the batch that the source wrote; the rest is padding.
    std::size_t filled = 0;
    std::size_t index  = 0;
    /// Index that was passed to the source for this batch.
    std::size_t asked = 0;

    std::uint64_t copy_number = 0; ///< number of copies of this slot so far
    /// Number of the last copy in this slot, counted over the copies of all slots in the order in
    /// which they begin; 0 before the first.
    std::uint64_t sequence = 0;
    /// Completion flag, a word in pinned memory, or null. After a copy, the device writes into it
    /// the low 32 bits of `copy_number`.
    std::uint32_t* flag = nullptr;
    /// Number of callbacks that are still to run although a query of an event has already shown the
    /// end of their copies. They must do nothing.
    std::size_t completed_early = 0;

    /// Event that is complete only if the slot's last copy is: `copied`, or `copied` of the device
    /// block. Null before the first copy.
    event const* over = nullptr;
    pinned_slot* next = nullptr;
    /// The `copy_channel` that begins the copies of this slot. The callback of a copy receives a
    /// pointer to the slot, and finds the channel here.
    void* owner    = nullptr;
    state now      = state::empty;
    bool  timed    = false;
    bool  pageable = false; ///< true if `memory` is pageable, because pinning failed
    /// True if nothing reports the end of the last copy: the next user of the block must wait for
    /// the event `copied`.
    bool in_flight = false;
    /// True from the time when a copy was enqueued until its end is recorded. During this time, the
    /// event `over` is recorded behind the copy.
    bool enqueued = false;
    bool flagged  = false; ///< true if the device writes `*flag` at the end of the copy
    /// True if the last copy may still run, because it and the wait for its end failed. The block
    /// is then freed only after a wait for the device.
    bool end_unknown = false;
    /// True if `last_batch::drop` leaves out the batch in this block: the batch is not copied, and
    /// the loop gets the next one.
    bool left_out = false;
    /// True if the time of the last copy, from `begun` to `copied`, is not yet in the statistics.
    bool unmeasured = false;

    /// Returns true if `*flag`, the low 32 bits of the number of the last complete copy, has
    /// reached `which`.
    [[nodiscard]] static bool flag_reached(std::uint32_t* flag, std::uint64_t which) noexcept {
        std::uint32_t const seen = std::atomic_ref{*flag}.load(std::memory_order_acquire);
        // Both numbers wrap around at 32 bits. Their difference, as a signed number, is negative if
        // the copy `which` is not complete.
        if (static_cast<std::int32_t>(seen - static_cast<std::uint32_t>(which)) < 0) {
            return false;
        }
        if constexpr (requires { Platform::mark_seen(flag); }) { Platform::mark_seen(flag); }
        return true;
    }

private:
    static event make(device where, bool timing) {
        if constexpr (has_timing<Platform>) {
            if (timing) { return event{Platform::timed_event(where)}; }
        }
        return event{where};
    }
};

} // namespace detail
} // namespace vram
