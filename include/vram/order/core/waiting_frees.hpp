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

/// Keeps freed blocks that streams may still use: one queue for each stream, oldest first. Each
/// block has the epoch (part of its stream's work) in which it was freed, and is unused once the
/// event that ends this epoch is complete. No event can be recorded while a stream is being
/// captured, nor on a default stream from another thread or device: the epoch then continues, and
/// ends with a later event. If no later event is recorded, the blocks of the epoch are found unused
/// only after the host has waited for the device.
///
/// `add` is called by a thread that uses the stream. All other functions may be called while
/// another thread uses the stream and begins a capture. They query only the capture status and the
/// events of a stream, and let the host wait only for events or for the device.
///
/// Failure   Errors of the platform are rethrown. No block is lost. If a function other than `add`
///           cannot record an event, the error is reported, and a later call tries again. If the
///           stream was destroyed, the error `dead_stream` is reported, and no event is recorded
///           on it any more.
/// Threads   One thread at a time, which holds the resource's lock. Only `pin::wait`, in which the
///           host waits, is called without the lock.
/// Cost      `add` and `collect` visit every stream with freed blocks. Each epoch costs an event,
///           and one query at each `collect` until it is complete.
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

    /// Adds a freed block, which the stream `s` used last. Records an event once `per_event` blocks
    /// were freed on `s` since the last event. `s` must not be captured. If this throws, `one`
    /// still belongs to the caller.
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

    /// Records an event behind the frees on `s` that have none, so that the stream may be
    /// destroyed. If the stream is being captured, or if recording fails (which is reported), there
    /// is no event, and the stream must not be destroyed.
    void retire(stream const& s) { timelines_.try_retire(s); }

    /// Ends the records of streams that the platform has announced as destroyed. Records an event
    /// behind their frees, which a hold of the stream (a reference that keeps the handle valid)
    /// permits, then releases the hold: a new stream may get the handle from then on.
    void forget_ended() { timelines_.forget_ended(); }

    /// Moves the blocks that their stream no longer uses, as an event shows, to the list `free`.
    /// Also records an event behind frees that have none, if possible. Does not wait. The first
    /// error is rethrown after all streams were treated.
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

    /// A host wait that a thread makes with the lock released: for an event, a device or nothing.
    /// The event is not reused until the thread has called `unpin`, with the lock held, after the
    /// wait.
    struct pin {
        enum class by { nothing, event, device };

        /// Timeline (record) of the stream to wait for; null if there is no freed block to wait
        /// for.
        timeline* its = nullptr;
        /// How the host waits: `nothing` if the block is unused already.
        by                        how{};
        typename timeline::entry* event = nullptr;
        /// Number of an epoch (part of the stream's work). After the wait, the work of the stream
        /// is complete up to the end of this epoch.
        std::uint64_t             until = 0;
        typename Platform::device where{};

        explicit operator bool() const noexcept { return its != nullptr; }
        /// Returns true if the block is unused already, so that no wait is needed.
        [[nodiscard]] bool is_over() const noexcept { return how == by::nothing; }
        void               wait() const {
            switch (how) {
            case by::nothing: return;
            case by::event: return Platform::synchronize(event->what);
            case by::device: return await_device<Platform>(where);
            }
        }
    };

    /// Chooses the oldest freed block that the host can wait for, and returns what it must wait
    /// for: an event, which is pinned (not reused until `unpin`), the device if there is no event,
    /// or nothing if the block is unused already. Skips streams that are being captured and have no
    /// event. Returns an empty pin if no block is left.
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
    /// Looks for a stream that freed a block older than `age` and has no event behind this free.
    /// Returns the device of the stream: the host must wait for the device, because nothing else
    /// shows that the block is unused. Skips streams that are being captured. Returns an empty pin
    /// if there is no such stream.
    [[nodiscard]] pin pin_uncovered(std::uint64_t age) noexcept {
        for (queue& each : queues_) {
            link const* const first = each.blocks.first();
            if (first == nullptr || first->age >= age) { continue; }
            if (can_wait_for(each) && !each.its->has_event(first->epoch)) { return pinned(each); }
        }
        return {};
    }
    /// Returns the age (a number that grows with each free) of the block that is freed next.
    [[nodiscard]] std::uint64_t next_age() const noexcept { return next_age_; }

    /// Called after a thread has waited for `done`, an event or a device. If `waited` (the wait
    /// succeeded), stores that the stream's work is complete up to the end of the epoch
    /// `done.until`. The next `collect` then finds the blocks freed until then unused.
    void unpin(pin const& done, bool waited) noexcept {
        if (done.event != nullptr) { --done.event->pins; }
        if (waited) { done.its->complete_up_to(done.until); }
    }

    /// Called at the end of the resource. The host waits until no stream uses the blocks, and the
    /// blocks are returned. Errors are reported. Blocks for which every wait failed are reported as
    /// leaks and not returned. For blocks without an event the host waits for the device, also if
    /// their stream is being captured.
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
    /// Returns the number of freed blocks that this object keeps.
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
        /// Number of blocks freed in the epoch (work between two events) `counted_epoch`.
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

    /// Records an event behind the frees of a queue's stream if possible. Returns false if no host
    /// wait can show that the first block is unused: the stream is being captured, and no event was
    /// recorded between the free and the capture.
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

    /// Streams are found by id, not by handle. Each free may have an event of its own, so the
    /// number of events of a stream is not limited.
    stream_timelines<Platform> timelines_{false, false, ~std::size_t{0}};
    heap_array<queue>          queues_; ///< one queue of freed blocks for each stream
    std::uint64_t              next_age_ = 0;
    std::size_t                bytes_    = 0;
};

} // namespace detail
} // namespace vram
