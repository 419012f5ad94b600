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

/// A device block for one batch of a loader or one result of an unloader, with the events that
/// order its uses. Streams wait for `copied` before they use the block; the next copy waits for
/// these streams.
///
/// Threads   One thread at a time accesses a slot.
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
    /// Index that the loader passed to the source for this batch. Differs from `index`, for example
    /// in shuffled order.
    std::size_t asked = 0;

    std::vector<stream> others; ///< streams added by `add_user`, which use the block too
    /// For each stream in `others`: a hold, which keeps the stream's handle valid at least until
    /// the release. Empty for a stream that vram did not create.
    std::vector<stream_hold<Platform>> others_held;
    /// Event i is recorded on the stream `others[i]` at the release. Further events at the end are
    /// spare ones, kept for later batches.
    std::vector<event> others_released;
    /// The device of each event in `others_released`: only a stream of this device can record it.
    std::vector<device> others_on;

    /// Completion flag of the block's last copy: a word in pinned memory that the device writes.
    /// Null if no flag reports the copy.
    std::uint32_t* flag = nullptr;
    /// Number of the block's last copy (`pinned_slot::copy_number`). If the copy has a completion
    /// flag, the device writes its low 32 bits there.
    std::uint64_t copy_number = 0;

    slot* next = nullptr;
    /// Index of the timed events by which `use_times` measures how long the loop uses this batch,
    /// or `use_times::untimed`. Not set on platforms without timing.
    std::size_t   use   = 0;
    std::uint64_t range = 0; ///< number of the profiler range that shows the batch's use
    /// Stream that used the block last, and the number of its batch, for reports. An empty type on
    /// platforms that do not report them.
    [[no_unique_address]] last_use<Platform> last{};
    /// True from the release of the batch (`record_users`) until the copy stream waits for the
    /// recorded events (`await_users`), or the host has waited (`finish_users`).
    bool in_use = false;
    /// True if nothing proves that the last use is complete. The block is then freed only after a
    /// wait for the device.
    bool end_unknown = false;

    /// Makes the stream `s` wait for the last copy into or out of the block. Enqueues no wait if
    /// the completion flag shows that the copy is complete.
    void await_copy(stream s) const {
        bool const over = flag != nullptr && pinned_slot<Platform>::flag_reached(flag, copy_number);
        if (!over) { Platform::wait(s, copied); }
    }
    /// Adds a stream that uses the block: `s` waits for the last copy, and the next copy waits for
    /// the work on `s`.
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
    /// Ends the use of the block: records an event on the program's stream `on` and on each added
    /// stream. Throws platform errors.
    void record_users(stream on) {
        Platform::record(released, on);
        in_use = true;
        last.note(index, on);
        for (std::size_t i = 0; i < others.size(); ++i) {
            Platform::record(others_released[i], others[i]);
        }
    }
    /// Makes the stream `on` wait for all streams that used the block, and forgets these streams.
    /// Does nothing if `in_use` is false.
    void await_users(stream on) {
        if (!in_use) { return; }
        Platform::wait(on, released);
        for (std::size_t i = 0; i < others.size(); ++i) { Platform::wait(on, others_released[i]); }
        forget_users();
    }
    /// Blocks the calling thread until the program's stream `on` and the added streams are done. If
    /// a wait fails, sets `end_unknown` and returns false.
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
    /// Makes `others_released[n]` an event that a stream of the device `where` can record: a spare
    /// one of this device or a new one.
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
