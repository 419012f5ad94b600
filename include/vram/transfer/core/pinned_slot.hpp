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

/// A platform that can measure time on the device. `timed_event(device)` makes an event, and
/// `elapsed(from, to)` returns the nanoseconds between two such events.
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

    event begun; ///< event before a copy of this block; recorded only if copies are timed
    /// Event that is recorded after a copy of this block. It is not recorded if copies are not
    /// timed and a completion flag reports the end of the copy.
    event copied;

    std::byte*  memory = nullptr;
    std::size_t size   = 0;
    /// Number of bytes of the batch that the source wrote; the rest is padding.
    std::size_t filled = 0;
    std::size_t index  = 0;
    /// Index that was passed to the source for this batch.
    std::size_t asked = 0;

    std::uint64_t copy_number = 0; ///< number of copies of this block begun so far
    /// Number of the last copy in this slot, counted over the copies of all slots in the order in
    /// which they begin; 0 before the first.
    std::uint64_t sequence = 0;
    /// Completion flag, a word in pinned memory, or null. After a copy, the device writes into it
    /// the low 32 bits of `copy_number`.
    std::uint32_t* flag = nullptr;
    /// Number of callbacks that have not run yet and must do nothing. A query of an event has
    /// already shown that their copies are complete.
    std::size_t completed_early = 0;

    /// Event that is recorded after the last enqueued copy of this block: `copied` of this block or
    /// of the device block. Null before the first copy.
    event const* over = nullptr;
    pinned_slot* next = nullptr;
    /// The `copy_channel` that enqueues the copies of this block. The callback of a copy receives
    /// only a pointer to the block, and gets the channel from this member.
    void* owner    = nullptr;
    state now      = state::empty;
    bool  timed    = false;
    bool  pageable = false; ///< true if `memory` is pageable, because pinning failed
    /// True if the last copy may still run and no callback or completion flag reports when it ends.
    /// The next user of the block must then wait for the event `copied`.
    bool in_flight = false;
    /// True from the time at which a copy of this block is enqueued until its end is recorded.
    /// During this time, `*over` is an event that is recorded after the copy.
    bool enqueued = false;
    bool flagged  = false; ///< true if the device writes `*flag` at the end of the copy
    /// True if the last copy may still run: an error occurred after the copy began, and the wait
    /// for its end failed too. The block is then freed only after a wait for the whole device.
    bool end_unknown = false;
    /// True if `last_batch::drop` leaves out the batch in this block: the batch is not copied, and
    /// the loop gets the next one.
    bool left_out = false;
    /// True if copies are timed and the duration of the last copy (between the events `begun` and
    /// `copied`) is not in the statistics yet.
    bool unmeasured = false;

    /// Returns true if copy number `which` of a block is complete. After each copy, the device
    /// writes the low 32 bits of the copy's number into the completion flag `*flag`.
    [[nodiscard]] static bool flag_reached(std::uint32_t* flag, std::uint64_t which) noexcept {
        std::uint32_t const seen = std::atomic_ref{*flag}.load(std::memory_order_acquire);
        // Compares the number in the flag with `which`. Both wrap around at 32 bits, so the sign of
        // their difference shows which is larger.
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
