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

/// Device block for one batch, with the events that protect it. A stream that reads the block waits
/// for `copied`. Before the block is overwritten, the copy stream waits on the device for
/// `released` and for the events of all further streams that used the batch.
///
/// Threads   A slot belongs to one side at a time: to the thread that copies into it, or to the
///           batch that holds it.
template <class Platform>
struct slot {
    using event  = typename Platform::event;
    using stream = typename Platform::stream;
    using device = typename Platform::device;

    explicit slot(device where) : copied{where}, released{where} {}

    event copied;   ///< the copy into the block, or out of it, is complete
    event released; ///< the loop's stream is done with the block

    std::byte*  memory = nullptr;
    std::size_t size   = 0; ///< bytes of the batch
    std::size_t filled = 0; ///< bytes of the batch from the source; the rest is padding
    std::size_t index  = 0; ///< place of the batch in the loader's order
    std::size_t asked  = 0; ///< index that the source was asked for (see `loader_options::shuffle`)

    std::vector<stream> others; ///< further streams that use the batch
    /// Holds on the streams in `others`, which may be destroyed before the batch is released.
    std::vector<stream_hold<Platform>> others_held;
    /// One event per stream in `others`; kept for reuse.
    std::vector<event> others_released;
    /// Device of each event in `others_released`; an event can be recorded only on its own device.
    std::vector<device> others_on;

    std::uint32_t* flag        = nullptr; ///< completion flag of the copy into this block, or null
    std::uint64_t  copy_number = 0; ///< number of that copy, which the flag reaches at its end

    slot*         next  = nullptr;
    std::size_t   use   = 0; ///< index of its pair of events in `use_times`
    std::uint64_t range = 0; ///< profiler range of the batch's use
    /// `released` is recorded and no stream or thread has waited for it.
    bool in_use = false;
    /// Neither an event nor a wait proves that its last use is complete.
    bool end_unknown = false;

    /// Makes the stream `s` wait for the copy into the block. If the completion flag shows that the
    /// copy is complete, `s` does not wait for the event.
    void await_copy(stream s) const {
        bool const over = flag != nullptr && pinned_slot<Platform>::flag_reached(flag, copy_number);
        if (!over) { Platform::wait(s, copied); }
    }
    /// Adds the stream `s` to the users of the block. `s` waits for the copy now, and the block is
    /// not overwritten before the work on `s` is done.
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
    /// Records the events of all users of the block: `released` on the stream `on`, and one event
    /// on each further stream.
    void record_users(stream on) {
        Platform::record(released, on);
        in_use = true;
        for (std::size_t i = 0; i < others.size(); ++i) {
            Platform::record(others_released[i], others[i]);
        }
    }
    /// Makes the stream `on` wait until all users of the block are done.
    void await_users(stream on) {
        if (!in_use) { return; }
        Platform::wait(on, released);
        for (std::size_t i = 0; i < others.size(); ++i) { Platform::wait(on, others_released[i]); }
        forget_users();
    }
    /// Blocks the host until all users of the block are done.
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
    /// Makes event `n` of `others_released` an event of the device `where`. Reuses an existing
    /// event of that device if there is one.
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
