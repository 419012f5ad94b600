// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot` is a place for one batch on the device: a block of memory, and the events around it.

#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/concepts/core/user_line.hpp>   // last_use
#include <vram/order/core/record_behind.hpp>  // captures
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

    std::vector<stream> others; ///< further streams that use this block, added by `add_user`
    /// For each stream in `others`: a hold, which keeps the stream's handle valid at least until
    /// the use of the block ends. A hold is empty if vram did not create its stream.
    std::vector<stream_hold<Platform>> others_held;
    /// `others_released[i]` is the event that `record_users` records on the stream `others[i]`.
    /// Further events at the end of this vector are unused, and kept for later batches.
    std::vector<event> others_released;
    /// The device for which each event in `others_released` was created. Only a stream of the same
    /// device can record the event.
    std::vector<device> others_on;

    /// Completion flag of the block's last copy: a word in pinned memory that the device writes.
    /// Null if no flag reports the copy.
    std::uint32_t* flag = nullptr;
    /// Number of the block's last copy (`pinned_slot::copy_number` of the pinned block). If `flag`
    /// is not null, the device writes the low 32 bits of this number into `*flag` after the copy.
    std::uint64_t copy_number = 0;

    slot* next = nullptr;
    /// Index of the pair of timed events with which `use_times` measures how long the loop uses
    /// this batch, or `use_times::untimed`. Unused on platforms without timing.
    std::size_t   use   = 0;
    std::uint64_t range = 0; ///< identifier of the profiler range that shows the use of the batch
    /// The stream that used the block last, and the index of its batch, for error reports. On
    /// platforms without such reports, this type is empty.
    [[no_unique_address]] last_use<Platform> last{};
    /// True after a call of `record_users`, until `await_users` or `finish_users` waits for the
    /// uses of the block.
    bool in_use = false;
    /// True if the last copy or use of the block may still run, because a wait for it failed. The
    /// block is then freed only after a wait for the whole device.
    bool end_unknown = false;

    /// Makes the stream `s` wait for the last copy into or out of the block. Enqueues no wait if
    /// the completion flag shows that the copy is complete.
    void await_copy(stream s) const {
        bool const over = flag != nullptr && pinned_slot<Platform>::flag_reached(flag, copy_number);
        if (!over) { Platform::wait(s, copied); }
    }
    /// Adds the stream `s` to the streams that use the block. `s` waits for the last copy into or
    /// out of the block. The next copy waits for the work that is enqueued on `s` before
    /// `record_users` is called.
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
    /// Returns true if `on` or a stream added by `add_user` is being captured. An event recorded on
    /// this stream would belong to the graph, and no other stream could wait for it.
    [[nodiscard]] bool captured(stream on) const noexcept {
        bool found = detail::captures<Platform>(on);
        for (stream const& other : others) { found = found || detail::captures<Platform>(other); }
        return found;
    }
    /// Marks the end of the use of the block: records an event on the program's stream `on` and on
    /// each stream added by `add_user`. `elsewhere`: true if `on` is a stream of another device.
    /// Throws errors of the platform.
    void record_users(stream on, bool elsewhere = false) {
        if (elsewhere) {
            add_user(on);
        } else {
            Platform::record(released, on);
        }
        in_use = true;
        last.note(index, on);
        for (std::size_t i = 0; i < others.size(); ++i) {
            Platform::record(others_released[i], others[i]);
        }
    }
    /// Makes the stream `on` wait for the events that `record_users` has recorded. Then forgets the
    /// streams added by `add_user`. Does nothing if `in_use` is false.
    void await_users(stream on) {
        if (!in_use) { return; }
        Platform::wait(on, released);
        for (std::size_t i = 0; i < others.size(); ++i) { Platform::wait(on, others_released[i]); }
        forget_users();
    }
    /// Makes the host wait for the work on the stream `on` (the program's stream for this block)
    /// and on the streams added by `add_user`; for a captured stream, it waits for the device. Then
    /// forgets the added streams. If a wait fails, sets `end_unknown` and returns false.
    [[nodiscard]] bool finish_users(stream on) noexcept {
        auto const complete = [](stream of) {
            auto const where = [of] { return Platform::device_of(of); };
            auto const wait  = [&] {
                if (detail::captures<Platform>(of)) { return await_device<Platform>(where()); }
                Platform::synchronize(of);
            };
            return wait_or_report<Platform>(wait, where);
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
    /// Sets `others_released[n]` to an event that streams of the device `where` can record: an
    /// unused event of this device, or a new one.
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
