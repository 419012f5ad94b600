// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot` is a place for one batch on the device: a block of memory, and the events around it.

#include <vram/concepts/stream_hold.hpp> // stream_hold, hold_stream
#include <vram/transfer/pinned_slot.hpp> // pinned_slot

#include <cstddef> // size_t, byte
#include <cstdint> // uint32_t, uint64_t
#include <utility> // swap
#include <vector>  // vector

namespace vram {

/// Two edges keep it safe: who reads the block waits for `copied`; before the block is overwritten
/// the copy stream waits, on the device, for `released` and for all further streams that used it.
///
/// Threads   belongs to one side at a time: who copies into it, or the batch that holds it
template <class Platform>
struct slot {
    using event  = typename Platform::event;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    explicit slot(device where) : copied{where}, released{where} {}

    event copied;   ///< the copy into the block, or out of it, is over
    event released; ///< who used the block is done with it

    std::byte*  memory = nullptr;
    std::size_t size   = 0; ///< bytes of the batch
    std::size_t filled = 0; ///< bytes of it that are the source's; the rest is padding
    std::size_t index  = 0; ///< of the batch, in the order
    std::size_t asked  = 0; ///< the index that the source was asked for

    std::vector<stream>                others;      ///< further streams that use the batch
    std::vector<stream_hold<Platform>> others_held; ///< which may end before the batch is released
    std::vector<event>                 others_released; ///< their events, kept for the next time
    std::vector<device>                others_on; ///< of each event: it is recorded there alone

    std::uint32_t* mark   = nullptr; ///< where the device says that the copy is over, if it does
    std::uint64_t  flight = 0;       ///< which copy it is there

    slot*         next   = nullptr;
    std::size_t   use    = 0;     ///< where the time of its use is taken
    std::uint64_t range  = 0;     ///< its use, in a profiler
    bool          in_use = false; ///< `released` was recorded and nobody has waited for it
    bool          unsure = false; ///< no event and no wait says when its last use is over

    /// `s` goes on when the copy into the block is over; where it is, no event is asked for it.
    void await_copy(stream s) const {
        bool const over = mark != nullptr && pinned_slot<Platform>::is_marked(mark, flight);
        if (!over) { Platform::wait(s, copied); }
    }
    /// Work on `s` uses the block too: it waits for the copy, and will be waited for.
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
    /// Whatever uses the block now is over at these places.
    void record_users(stream on) {
        Platform::record(released, on);
        in_use = true;
        for (std::size_t i = 0; i < others.size(); ++i) {
            Platform::record(others_released[i], others[i]);
        }
    }
    /// `on` goes on when all users are done.
    void await_users(stream on) {
        if (!in_use) { return; }
        Platform::wait(on, released);
        for (std::size_t i = 0; i < others.size(); ++i) { Platform::wait(on, others_released[i]); }
        forget_users();
    }
    /// The host goes on when all users are done.
    void synchronize_users() {
        if (!in_use) { return; }
        Platform::synchronize(released);
        for (std::size_t i = 0; i < others.size(); ++i) {
            Platform::synchronize(others_released[i]);
        }
        forget_users();
    }
    void forget_users() noexcept {
        others.clear();
        others_held.clear();
        in_use = false;
    }

private:
    /// Event `n` is one of `where`, kept from before where there is one.
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

} // namespace vram
