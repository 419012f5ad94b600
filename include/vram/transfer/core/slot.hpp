// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot` is a place for one batch on the device: a block of memory, and the events around it.

#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/core/user_line.hpp>   // last_use
#include <vram/order/core/wait_or_report.hpp>
#include <vram/transfer/core/pinned_slot.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// A device block for one batch of a loader (or one result of an unloader), with the events that
/// order its uses. A stream of the program waits for `copied` before it uses the block. Before the
/// next copy, the copy stream waits for `released` and for an event of each stream added by
/// `add_user`.
///
/// Threads   One thread at a time accesses a slot: the thread that copies into it, or the one that
///           uses the batch.
template <class Platform>
struct slot {
    using event  = typename Platform::event;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    explicit slot(device where) : copied{where}, released{where} {}

    event copied;   ///< event recorded after the copy into the block, or out of it
    event released; ///< event recorded after the last use of the block on the program's stream

    std::byte* memory = nullptr;
    /// Number of bytes of the batch with its padding, or of the result.
    std::size_t size   = 0;
    std::size_t filled = 0; ///< number of bytes of the batch from the source; the rest is padding
    std::size_t index  = 0; ///< number of the batch or result, from 0
    /// Index that the loader passed to the source for this batch. Differs from `index` if batches
    /// are shuffled, divided among several loaders, or known in advance to be left out.
    std::size_t asked = 0;

    std::vector<stream> others; ///< streams added by `add_user`, which use the block too
    /// A hold for each stream in `others`: keeps the handle valid until the batch is released or
    /// the result is sent, even if the program destroys the stream before. Empty for a stream that
    /// vram did not create.
    std::vector<stream_hold<Platform>> others_held;
    /// Events by which the copy stream waits for the streams in `others`: event i is recorded on
    /// the stream `others[i]` when the batch is released. Events are kept for later batches, so
    /// there may be more events than streams.
    std::vector<event> others_released;
    /// The device of each event in `others_released`: only a stream of this device can record it.
    std::vector<device> others_on;

    /// Completion flag of the last copy into this block, or out of it: a word in pinned memory that
    /// the device writes after the copy. Null if no flag reports this copy.
    std::uint32_t* flag = nullptr;
    /// `pinned_slot::copy_number` of the last copy into this block, or out of it. When that copy
    /// ends, the device writes the low 32 bits of the number to the completion flag `*flag`, if
    /// there is one.
    std::uint64_t copy_number = 0;

    slot* next = nullptr;
    /// Index of the pair of timed events in `use_times` that measures how long the batch is used;
    /// `use_times::untimed` if none does.
    std::size_t   use   = 0;
    std::uint64_t range = 0; ///< number of the profiler range that shows the batch's use
    /// Stream that used the block last, and number of the batch or result for which it did, for
    /// reports. Without members on a platform that makes no such reports.
    [[no_unique_address]] last_use<Platform> last{};
    /// True from the release of the batch (`record_users`, which records the event `released`)
    /// until the copy stream waits for this event.
    bool in_use = false;
    /// True if neither an event nor a wait proves that the last use of the block is complete. The
    /// block is then freed only after a wait for the whole device; if that wait fails, the block is
    /// reported as a leak.
    bool end_unknown = false;

    /// Makes the stream `s` wait for the last copy into the block or out of it, unless `*flag`
    /// shows that this copy is complete.
    void await_copy(stream s) const {
        bool const over = flag != nullptr && pinned_slot<Platform>::flag_reached(flag, copy_number);
        if (!over) { Platform::wait(s, copied); }
    }
    /// Adds a stream `s` that uses the block. `s` waits for the last copy into the block or out of
    /// it. The next copy waits for the work that is enqueued on `s` before the batch is released or
    /// the result is sent (`record_users`).
    void add_user(stream s) {
        for (stream const& known : others) {
            if (known == s) { return; }
        }
        others.reserve(others.size() + 1);
        others_held.reserve(others.size() + 1);
        keep_event_on(Platform::device_of(s), others.size());
        await_copy(s);
        others.push_back(s);
        others_held.push_back(hold_stream<Platform>(s));
    }
    /// Ends the use of the block by the program. Records an event behind the work enqueued so far
    /// on each stream that uses the block: `released` on the program's stream `on`, and one event
    /// on each stream added by `add_user`. Throws errors of the platform; some of the events may
    /// then be missing.
    void record_users(stream on) {
        Platform::record(released, on);
        in_use = true;
        last.note(index, on);
        for (std::size_t i = 0; i < others.size(); ++i) {
            Platform::record(others_released[i], others[i]);
        }
    }
    /// Makes the stream `on` wait for all streams that used the block, by the events that
    /// `record_users` recorded on them. These streams are then forgotten. Does nothing if
    /// `record_users` was not called since the last call.
    void await_users(stream on) {
        if (!in_use) { return; }
        Platform::wait(on, released);
        for (std::size_t i = 0; i < others.size(); ++i) { Platform::wait(on, others_released[i]); }
        forget_users();
    }
    /// Blocks the calling thread until the work on the stream `on` and on the streams added by
    /// `add_user` is complete. Needs no recorded event. If a wait fails, sets `end_unknown` and
    /// returns false: the block must then not be used again.
    [[nodiscard]] bool finish_users(stream on) noexcept {
        auto const complete = [](stream of) {
            return wait_or_report<Platform>(of, [of] { return Platform::device_of(of); });
        };
        end_unknown = !complete(on);
        for (stream other : others) { end_unknown = !complete(other) || end_unknown; }
        forget_users();
        return !end_unknown;
    }
    void forget_users() noexcept {
        others.clear();
        others_held.clear();
        in_use = false;
    }

private:
    /// Makes `others_released[n]`, the event for the stream `others[n]`, an event of that stream's
    /// device `where`, because a stream can record only events of its device. If needed, exchanges
    /// the event with a later one of `where`, or with a new one.
    void keep_event_on(device where, std::size_t n) {
        std::size_t at = n;
        while (at < others_on.size() && !(others_on[at] == where)) { ++at; }
        if (at == others_on.size()) {
            others_on.reserve(at + 1);
            others_released.emplace_back(where);
            others_on.push_back(where);
        }
        if (at == n) { return; }
        std::swap(others_released[n], others_released[at]);
        std::swap(others_on[n], others_on[at]);
    }
};

} // namespace detail
} // namespace vram
