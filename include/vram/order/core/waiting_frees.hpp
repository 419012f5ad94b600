// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `waiting_frees` keeps freed blocks until the streams that used them are done.

#include <vram/base/call_site.hpp>               // call_site
#include <vram/base/core/report_caught.hpp>      // report_caught
#include <vram/base/error.hpp>                   // report_error
#include <vram/concepts/core/await_device.hpp>   // await_device
#include <vram/concepts/core/is_ending.hpp>      // is_ending
#include <vram/concepts/core/name_of_stream.hpp> // name_of_stream
#include <vram/concepts/core/stream_hold.hpp>    // stream_hold, hold_stream
#include <vram/concepts/platform.hpp>            // has_streams, has_events
#include <vram/order/core/freed_blocks.hpp>      // freed_blocks
#include <vram/order/core/record_behind.hpp>     // record_behind
#include <vram/order/core/sure_wait.hpp>         // sure_wait

#include <cstddef>   // size_t
#include <cstdint>   // uint64_t
#include <exception> // exception_ptr
#include <utility>   // exchange, move, swap
#include <vector>    // vector

namespace vram {
namespace detail {

/// Freed blocks that streams may still use: one queue of batches for each stream, oldest first. A
/// batch is a number of freed blocks and one event recorded behind their last uses. Batches and
/// their events are reused. No event can be recorded while a stream is being captured, nor on a
/// default stream from another thread or device: such a batch stays open (without an event) and
/// gets its event later. If it never does, its blocks are free once a later event of the stream is
/// complete, or after the host has waited for the device.
///
/// A stream may belong to another thread, which may begin a capture at any moment. Therefore,
/// except in `add` and `close(s)`, no stream is queried or waited for, only events.
///
/// Failure   Errors of the platform are rethrown. No block is lost. If the event of an open batch
///           cannot be recorded, the error is reported and recording is tried again later. If the
///           stream was destroyed, `dead_stream` is reported and the batch never gets an event.
/// Threads   One thread at a time, which holds the owner's lock. Only `wait` is called without it.
/// Cost      `add` and `collect` look at every stream with freed blocks here. Each batch costs an
///           event, and one query at each `collect` until it is complete.
template <class Platform>
    requires has_streams<Platform> && has_events<Platform>
class waiting_frees {
public:
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using event  = typename Platform::event;
    using link   = freed_blocks::link;

    /// Blocks that were freed on one stream, and an event for recording behind their last uses.
    class batch {
        friend class waiting_frees;

        explicit batch(device const& d) : where{d}, place{d} {}

        enum class stage { open, recorded, unrecordable, done };

        [[nodiscard]] bool has_event() const noexcept {
            return now == stage::recorded || now == stage::done;
        }
        /// Returns true if blocks may be added: no event is recorded, and no thread waits for it.
        [[nodiscard]] bool takes_more() const noexcept { return now == stage::open && pins == 0; }

        device        where;
        event         place;
        stage         now = stage::open;
        freed_blocks  blocks;
        std::uint64_t age    = 0;
        unsigned      pins   = 0;     ///< number of host threads that wait for the batch
        bool          queued = false; ///< true as long as the batch is in the queue of a stream
        batch*        next   = nullptr;
    };

    waiting_frees() = default;
    waiting_frees(waiting_frees&& other) noexcept { swap(other); }
    waiting_frees& operator=(waiting_frees&& other) noexcept {
        waiting_frees now{std::move(other)};
        swap(now);
        return *this;
    }
    ~waiting_frees() {
        for (line& each : lines_) { destroy(each.first); }
        destroy(spare_);
    }

    /// Adds a freed block, which the stream `s` used last, to the open batch of `s` or to a new
    /// one, and records the event of the batch once it has `per_event` blocks. `s` must not be
    /// captured. If this throws, `one` still belongs to the caller.
    void add(stream const& s, link* one, std::size_t per_event) {
        line&  queue = line_of(s);
        bool   fresh = queue.last == nullptr || !queue.last->takes_more();
        batch* into  = fresh ? obtain(Platform::device_of(s)) : queue.last;
        if (into->blocks.count() + 1 >= per_event) {
            try {
                record(*into, s);
            } catch (...) {
                if (fresh) { recycle(into); }
                throw;
            }
        }
        bytes_ += one->bytes;
        into->blocks.push(one);
        if (fresh) {
            (queue.last ? queue.last->next : queue.first) = into;
            queue.last                                    = into;
        }
    }

    /// Records the event of the last batch of `s`, if it has none yet. The stream may be destroyed
    /// afterwards, unless it is being captured: no event is recorded then.
    void close(stream const& s) {
        auto const id = Platform::id(s);
        for (line& each : lines_) {
            if (each.id == id) { close(each); }
        }
    }

    /// Moves each block to `free` if an event shows that its stream is done with it. Also records
    /// missing events. Does not wait. The first error is rethrown after all streams were treated.
    void collect(freed_blocks& free) {
        std::exception_ptr failed;
        for (std::size_t i = 0; i < lines_.size();) {
            line& queue = lines_[i];
            close(queue);
            try {
                take_done(queue, free);
            } catch (...) {
                if (!failed) { failed = std::current_exception(); }
            }
            if (queue.first != nullptr) {
                ++i;
            } else {
                std::swap(queue, lines_.back());
                lines_.pop_back();
            }
        }
        if (failed) { std::rethrow_exception(failed); }
    }

    /// A batch for which a host thread waits without the lock. It is not reused until `unpin`.
    struct pin {
        enum class by { event, device };

        batch* at = nullptr; ///< the batch, or null if there is nothing to wait for
        by     how{};

        explicit operator bool() const noexcept { return at != nullptr; }
        /// Makes the host wait for the event of the batch, or, if it has none, for its device.
        void wait() const {
            switch (how) {
            case by::event: return Platform::synchronize(at->place);
            case by::device: return await_device<Platform>(at->where);
            }
        }
    };

    /// Pins the batch of freed blocks to wait for so that the oldest one is returned: of its
    /// stream, the first batch with an event, else the last. Skips streams that are being
    /// captured and have no event. Returns an empty pin if there are no others.
    [[nodiscard]] pin pin_oldest() noexcept {
        pin           found;
        std::uint64_t age = 0;
        for (line& each : lines_) {
            if (each.first == nullptr || (found && each.first->age > age)) { continue; }
            close(each);
            if (pin const target = next_pin(each)) {
                found = target;
                age   = each.first->age;
            }
        }
        return pinned(found);
    }
    /// Returns the number of batches that have blocks, by counting them.
    [[nodiscard]] std::size_t batches() const noexcept {
        std::size_t count = 0;
        for (line const& each : lines_) {
            for (batch const* at = each.first; at != nullptr; at = at->next) { ++count; }
        }
        return count;
    }
    /// Returns the age of the next new batch. Older batches have smaller values.
    [[nodiscard]] std::uint64_t next_age() const noexcept { return next_age_; }
    /// Pins the last batch of a stream without any event, if that batch is older than `age`: only a
    /// wait for the device shows that its blocks are unused. Skips streams that are being captured.
    /// Returns an empty pin if there are no others.
    [[nodiscard]] pin pin_uncovered(std::uint64_t age) noexcept {
        for (line& each : lines_) {
            if (each.last == nullptr || each.last->age >= age) { continue; }
            close(each);
            pin const target = next_pin(each);
            if (target && target.how != pin::by::event) { return pinned(target); }
        }
        return {};
    }

    /// Ends the use of a pinned batch by one thread. `waited` is true if the wait succeeded: the
    /// next `collect` then frees the batch without a query.
    void unpin(pin const& pinned, bool waited) noexcept {
        batch* const b = pinned.at;
        --b->pins;
        if (waited && b->queued) { b->now = batch::stage::done; }
        if (b->pins == 0 && !b->queued) { recycle(b); }
    }

    /// Called at the end of the owner: waits for all blocks and returns them. Errors are reported.
    /// Blocks for which every wait failed are reported as leaks and not returned. For blocks
    /// without an event the host waits for the device, also if their stream is being captured.
    [[nodiscard]] freed_blocks wait_for_all() noexcept {
        freed_blocks free, lost;
        for (line& each : lines_) {
            close(each);
            while (each.first != nullptr) {
                pin target = next_pin(each);
                if (!target) { target = {each.last, pin::by::device}; }
                take_up_to(target.at, each, try_wait(target) ? free : lost);
            }
        }
        lost.drain([](void* p, std::size_t bytes, std::size_t, call_site at) {
            report_error({.kind     = error_kind::leak,
                          .pointer  = p,
                          .bytes    = bytes,
                          .caller   = at,
                          .resource = "stream_ordered",
                          .cause    = "its stream is being captured, or could not be waited for"});
        });
        return free;
    }

    /// Returns true if there is a freed block at `p` here. Compares with each block.
    [[nodiscard]] bool has(void const* p) const noexcept {
        for (line const& each : lines_) {
            for (batch const* b = each.first; b != nullptr; b = b->next) {
                if (b->blocks.has(p)) { return true; }
            }
        }
        return false;
    }
    [[nodiscard]] bool          empty() const noexcept { return bytes_ == 0; }
    [[nodiscard]] std::size_t   bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

private:
    struct line {
        std::uint64_t         id;
        stream                s;
        stream_hold<Platform> held{};
        batch*                first = nullptr;
        batch*                last  = nullptr;
        /// Result of the last attempt to record an event on the stream.
        recorded how = recorded::pending;
    };

    line& line_of(stream const& s) {
        auto const id = Platform::id(s);
        for (line& each : lines_) {
            if (each.id == id) { return each; }
        }
        return lines_.emplace_back(line{.id = id, .s = s, .held = hold_stream<Platform>(s)});
    }

    /// Records the event of the batch on a stream that the calling thread uses. If another thread
    /// has begun to capture `s`, the event may belong to the graph, and the batch stays open.
    void record(batch& into, stream const& s) {
        Platform::record(into.place, s);
        if (Platform::capturing(s)) { return; }
        into.now = batch::stage::recorded;
        ++events_;
    }
    /// Records the event of `into` on a stream that may belong to another thread. If that is not
    /// possible now, the batch stays open, and `queue.how` has the reason.
    void record_behind(batch& into, line& queue) {
        queue.how = detail::record_behind<Platform>(into.place, queue.s, queue.id, queue.held);
        bool const covers = queue.how == recorded::pending || queue.how == recorded::done;
        into.now          = covers ? batch::stage::recorded : batch::stage::open;
        if (queue.how == recorded::done && into.pins == 0) { into.now = batch::stage::done; }
        events_ += covers ? 1 : 0;
    }

    void close(line& queue) noexcept {
        batch* const last = queue.last;
        if (last == nullptr || last->now != batch::stage::open) { return; }
        try {
            record_behind(*last, queue);
        } catch (...) {
            queue.how = recorded::pending; // recording is tried again later
            report_caught({.kind  = error_kind::platform_error,
                           .bytes = last->blocks.bytes(),
                           .call  = "recording an event on a stream"});
        }
        if (queue.how != recorded::lost) { return; }
        last->now = batch::stage::unrecordable;
        if (is_ending<Platform>()) { return; }
        report_error({.kind   = error_kind::dead_stream,
                      .bytes  = last->blocks.bytes(),
                      .stream = name_of_stream<Platform>(queue.s, queue.id)});
    }

    /// Returns the first batch of the queue with an event, to wait for that. If there is none,
    /// returns the last batch, to wait for its device, or nothing if the stream is being captured.
    [[nodiscard]] static pin next_pin(line const& queue) noexcept {
        for (batch* at = queue.first; at != nullptr; at = at->next) {
            if (at->has_event()) { return {at, pin::by::event}; }
        }
        bool const open = queue.last->now == batch::stage::open;
        if (open && queue.how == recorded::captured) { return {}; }
        return {queue.last, pin::by::device};
    }
    [[nodiscard]] static pin pinned(pin const& one) noexcept {
        if (one) { ++one.at->pins; }
        return one;
    }

    [[nodiscard]] static bool done(batch const& b) {
        return b.now == batch::stage::done || Platform::done(b.place);
    }
    /// Moves the blocks of batches with a complete event to `free`, with those of all batches
    /// before them. Stops at the first event that is not complete. If the query of an event fails,
    /// the event may belong to a graph, because another thread captured the stream and ended the
    /// capture while it was recorded; it is then recorded again.
    void take_done(line& queue, freed_blocks& free) {
        for (batch *at = queue.first, *next = nullptr; at != nullptr; at = next) {
            next = at->next;
            if (!at->has_event()) { continue; }
            try {
                if (!done(*at)) { return; }
            } catch (...) {
                if (at->pins != 0) { throw; }
                record_behind(*at, queue);
                if (queue.how == recorded::lost || queue.how == recorded::elsewhere) { throw; }
                --events_;
                if (queue.how == recorded::pending) { return; }
                if (queue.how == recorded::captured) { continue; }
            }
            take_up_to(at, queue, free);
        }
    }

    /// Waits for a batch as `target` states, or for its device if that fails. Errors are reported.
    /// Returns true if one of the waits succeeded.
    [[nodiscard]] static bool try_wait(pin const& target) noexcept {
        auto const where = [&] { return target.at->where; };
        switch (target.how) {
        case pin::by::event: return sure_wait<Platform>(target.at->place, where);
        case pin::by::device: break;
        }
        return sure_wait<Platform>(target.at->where, where);
    }

    void take_up_to(batch const* last, line& queue, freed_blocks& into) noexcept {
        for (batch* b = nullptr; b != last;) {
            b           = queue.first;
            queue.first = b->next;
            bytes_ -= b->blocks.bytes();
            into.splice(b->blocks);
            b->queued = false;
            if (b->pins == 0) { recycle(b); }
        }
        if (queue.first == nullptr) { queue.last = nullptr; }
    }

    [[nodiscard]] batch* obtain(device const& d) {
        batch** at = &spare_;
        while (*at != nullptr && !((*at)->where == d)) { at = &(*at)->next; }
        batch* const b = *at != nullptr ? std::exchange(*at, (*at)->next) : new batch{d};
        b->next        = nullptr;
        b->now         = batch::stage::open;
        b->age         = next_age_++;
        b->queued      = true;
        return b;
    }
    void recycle(batch* b) noexcept {
        b->next = spare_;
        spare_  = b;
    }
    void swap(waiting_frees& other) noexcept {
        std::swap(lines_, other.lines_);
        std::swap(spare_, other.spare_);
        std::swap(next_age_, other.next_age_);
        std::swap(bytes_, other.bytes_);
        std::swap(events_, other.events_);
    }
    static void destroy(batch* first) noexcept {
        while (first != nullptr) { delete std::exchange(first, first->next); }
    }

    std::vector<line> lines_;
    batch*            spare_    = nullptr;
    std::uint64_t     next_age_ = 0;
    std::size_t       bytes_    = 0;
    std::uint64_t     events_   = 0;
};

} // namespace detail
} // namespace vram
