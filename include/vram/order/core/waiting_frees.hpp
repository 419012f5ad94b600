// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `waiting_frees` keeps freed blocks until the streams that used them are done.

#include <vram/base/call_site.hpp>
#include <vram/base/core/heap_array.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/platform.hpp> // has_streams, has_events
#include <vram/order/core/freed_blocks.hpp>
#include <vram/order/core/record_behind.hpp> // recorded
#include <vram/order/core/stream_timelines.hpp>
#include <vram/order/core/wait_or_report.hpp>

#include <cstddef>
#include <cstdint>
#include <exception> // exception_ptr
#include <utility>

namespace vram {
namespace detail {

/// Keeps freed blocks that streams may still use, in one queue for each stream. A block is unused
/// once an event recorded behind its free is complete. If no event can be recorded, the host waits
/// for the device.
///
/// Failure   Errors of the platform are rethrown or reported. Only `wait_for_all` may lose a block,
///           and reports it as a leak.
/// Threads   One thread at a time, with the resource's lock held except in `pin::wait` and
///           `wait_for_all`.
/// Streams   Only `add` must be called by the thread that uses the stream.
template <class Platform>
    requires has_streams<Platform> && has_events<Platform>
class waiting_frees {
    using timeline = stream_timeline<Platform>;

public:
    using stream = typename Platform::stream;
    using link   = freed_blocks::link;

    waiting_frees() = default;
    waiting_frees(waiting_frees&& other) noexcept { *this = std::move(other); }
    waiting_frees& operator=(waiting_frees&& other) noexcept {
        if (this == &other) { return *this; }
        timelines_ = std::move(other.timelines_);
        queues_    = std::move(other.queues_);
        next_age_  = other.next_age_;
        bytes_     = std::exchange(other.bytes_, 0);
        return *this;
    }

    /// Adds a freed block that the stream `s` used last. Records one event for every `per_event`
    /// frees on `s`. `s` must not be captured.
    void add(stream const& s, link* one, std::size_t per_event) {
        timeline& its = timelines_.of(s);
        queue&    to  = queue_of(its);
        one->epoch    = its.running();
        if (std::exchange(to.counted_epoch, one->epoch) != one->epoch) { to.counted = 0; }
        bool const full = to.counted + 1 >= per_event;
        if (!full || !its.record_in_order()) { (void)its.epoch_of_free(); }
        ++to.counted;
        one->age = next_age_++;
        bytes_ += one->bytes;
        to.blocks.push(one);
    }

    /// Called before the stream `s` is destroyed. Tries to record an event behind the frees on `s`,
    /// which fails during a capture. If it fails, `s` must not be destroyed until a later call of
    /// `retire` or `collect` has recorded the event.
    void retire(stream const& s) { timelines_.try_retire(s); }

    /// For each stream that the platform has announced as destroyed: records an event behind the
    /// frees on the stream, and releases the stream's handle, which a new stream may then get.
    void forget_ended() { timelines_.forget_ended(); }

    /// Moves the blocks that no stream uses any more to the list `free`, without a wait. If a query
    /// fails, goes on with the other streams, and rethrows the first error at the end.
    void collect(freed_blocks& free) {
        timelines_.forget_ended();
        std::exception_ptr failed;
        for (std::size_t i = 0; i < queues_.size();) {
            queue& each = queues_[i];
            cover(each);
            try {
                each.its->poll();
            } catch (...) {
                if (!failed) { failed = std::current_exception(); }
            }
            while (link const* const first = each.blocks.first()) {
                if (!each.its->done(first->epoch)) { break; }
                move_first(each, free);
            }
            if (each.blocks.empty()) {
                (void)queues_.take(i);
            } else {
                ++i;
            }
        }
        if (failed) { std::rethrow_exception(failed); }
    }

    /// A wait of the host for one stream, after which the stream's oldest freed blocks are unused.
    /// The caller calls `wait` without the lock, and then `unpin` with the lock held.
    struct pin {
        enum class by { nothing, event, device };

        /// Timeline (record of progress) of the stream to wait for. Null if the `pin` is empty.
        timeline* its = nullptr;
        /// What the host waits for: an event, a device, or `nothing` if the blocks are unused.
        by                        how{};
        typename timeline::entry* event = nullptr;
        /// After the wait, the stream's work is complete up to the end of this part (epoch).
        std::uint64_t             until = 0;
        typename Platform::device where{};

        explicit operator bool() const noexcept { return its != nullptr; }
        /// Returns true if the blocks are already unused. `wait` then returns at once.
        [[nodiscard]] bool is_over() const noexcept { return how == by::nothing; }
        void               wait() const {
            switch (how) {
            case by::nothing: return;
            case by::event: return Platform::synchronize(event->what);
            case by::device: return await_device<Platform>(where);
            }
        }
    };

    /// Returns a `pin` (a wait to be made by the host) for the oldest freed block, or an empty
    /// `pin`. Skips the blocks of a stream that is being captured, if no event is recorded behind
    /// the oldest of them.
    [[nodiscard]] pin pin_oldest() noexcept {
        queue* found = nullptr;
        for (queue& each : queues_) {
            link const* const first = each.blocks.first();
            if (first == nullptr) { continue; }
            if (found != nullptr && first->age > found->blocks.first()->age) { continue; }
            if (can_wait_for(each)) { found = &each; }
        }
        return found != nullptr ? pinned(*found) : pin{};
    }
    /// Finds a stream that freed a block before `age`, and on which no event can be recorded.
    /// Returns a `pin` (a wait to be made by the host) for the device of this stream. Skips streams
    /// that are being captured. Returns an empty `pin` if there is no such stream.
    [[nodiscard]] pin pin_uncovered(std::uint64_t age) noexcept {
        for (queue& each : queues_) {
            link const* const first = each.blocks.first();
            if (first == nullptr || first->age >= age) { continue; }
            if (can_wait_for(each) && !each.its->has_event(first->epoch)) { return pinned(each); }
        }
        return {};
    }
    /// Returns the sequence number (age) that the block freed next gets.
    [[nodiscard]] std::uint64_t next_age() const noexcept { return next_age_; }

    /// Ends the wait `done`, so that its event can be recorded again. The caller must hold the
    /// lock. If `waited` is true, the wait succeeded: the stream's work is complete up to
    /// `done.until`.
    void unpin(pin const& done, bool waited) noexcept {
        if (done.event != nullptr) { --done.event->pins; }
        if (waited) { done.its->complete_up_to(done.until); }
    }

    /// Makes the host wait until no stream uses the blocks, and returns the blocks. If the host
    /// cannot wait for a stream or its device, the blocks of this stream are reported as leaks.
    [[nodiscard]] freed_blocks wait_for_all() noexcept {
        freed_blocks free, lost;
        for (queue& each : queues_) {
            cover(each);
            while (!each.blocks.empty()) {
                pin const  target = pinned(each);
                bool const waited =
                    target.is_over() ||
                    wait_or_report<Platform>([&] { target.wait(); }, [&] { return target.where; });
                unpin(target, waited);
                for (link const* first = each.blocks.first();
                     first != nullptr && first->epoch <= target.until;
                     first = each.blocks.first()) {
                    move_first(each, waited ? free : lost);
                }
            }
        }
        queues_.clear();
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

    /// Returns true if this object keeps a freed block at `p`. Compares with each block.
    [[nodiscard]] bool has(void const* p) const noexcept {
        for (queue const& each : queues_) {
            if (each.blocks.has(p)) { return true; }
        }
        return false;
    }
    [[nodiscard]] std::size_t count() const noexcept {
        std::size_t sum = 0;
        for (queue const& each : queues_) { sum += each.blocks.count(); }
        return sum;
    }
    [[nodiscard]] bool          empty() const noexcept { return bytes_ == 0; }
    [[nodiscard]] std::size_t   bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return timelines_.events(); }

private:
    /// The blocks that were freed on one stream, oldest first.
    struct queue {
        timeline*     its;
        freed_blocks  blocks{};
        std::uint64_t counted_epoch = 0;
        /// Number of blocks freed in the part `counted_epoch` of the stream's work. `add` records
        /// an event when this number reaches `per_event`.
        std::size_t counted = 0;
    };

    queue& queue_of(timeline& its) {
        for (queue& each : queues_) {
            if (each.its == &its) { return each; }
        }
        return queues_.push(queue{&its});
    }
    void move_first(queue& from, freed_blocks& to) noexcept {
        link* const one = from.blocks.pop();
        bytes_ -= one->bytes;
        to.push(one);
    }

    recorded cover(queue& its) noexcept { return timelines_.cover(*its.its, its.blocks.bytes()); }

    /// Tries to record an event behind the frees. Then returns true if the host can wait for the
    /// queue's oldest block: the stream is not being captured, or the block has an event.
    [[nodiscard]] bool can_wait_for(queue& its) noexcept {
        recorded const how = cover(its);
        return how != recorded::captured || its.its->has_event(its.blocks.first()->epoch);
    }
    [[nodiscard]] static pin pinned(queue& from) noexcept {
        using by                  = typename pin::by;
        timeline&           its   = *from.its;
        std::uint64_t const epoch = from.blocks.first()->epoch;
        if (its.done(epoch)) { return {&its, by::nothing, nullptr, epoch, its.device()}; }
        if (!its.has_event(epoch)) {
            return {&its, by::device, nullptr, its.end_epoch_without_event(), its.device()};
        }
        auto& one = its.event_for(epoch);
        ++one.pins;
        return {&its, by::event, &one, one.epoch, its.device()};
    }

    /// The timelines (records of progress) of the streams that freed blocks. Streams are found by
    /// their ids. The number of events is not limited, because each free may need its own event.
    stream_timelines<Platform> timelines_{false, false, ~std::size_t{0}};
    heap_array<queue>          queues_; ///< one queue of freed blocks for each stream
    std::uint64_t              next_age_ = 0;
    std::size_t                bytes_    = 0;
};

} // namespace detail
} // namespace vram
