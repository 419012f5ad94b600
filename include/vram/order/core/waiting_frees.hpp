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

    /// Adds a freed block, which the stream `s` used last. Records an event behind every
    /// `per_event` frees. `s` must not be captured.
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

    /// Tries to record an event behind the frees on `s`. If that fails, for example during a
    /// capture, `s` must exist until a later `retire` or `collect` has recorded one.
    void retire(stream const& s) { timelines_.try_retire(s); }

    /// For streams that the platform has announced as destroyed: records events behind their frees,
    /// and releases their handles, which new streams may then get.
    void forget_ended() { timelines_.forget_ended(); }

    /// Moves the blocks that no stream uses any more to the list `free`, without a wait. Rethrows
    /// the first error at the end.
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

    /// A wait of the host, without the lock, after which the oldest freed blocks of a stream are
    /// unused. The caller must then call `unpin`, so that the event can be reused.
    struct pin {
        enum class by { nothing, event, device };

        /// Timeline (record) of the stream to wait for, or null.
        timeline* its = nullptr;
        /// How the host waits: `nothing` if the block is unused already.
        by                        how{};
        typename timeline::entry* event = nullptr;
        /// The wait completes the work of the stream up to the end of this epoch (part of the
        /// work).
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

    /// Returns a wait for the oldest freed block that can be waited for, or an empty `pin`. Skips
    /// streams that are being captured and have no event behind their oldest block.
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
    /// Returns a wait for the device of a stream outside a capture that can record no event behind
    /// its oldest block, if that was freed before `age`. Otherwise returns an empty `pin`.
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

    /// Ends a wait of the host, with the lock held, so that its event can be reused. `waited`: the
    /// wait succeeded, so that the work up to `done.until` is complete.
    void unpin(pin const& done, bool waited) noexcept {
        if (done.event != nullptr) { --done.event->pins; }
        if (waited) { done.its->complete_up_to(done.until); }
    }

    /// Makes the host wait until no stream uses the blocks, and returns them. Blocks for which
    /// every wait failed are reported as leaks.
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
        /// Number of blocks freed in the epoch (part of the stream's work) `counted_epoch`, to
        /// compare with `per_event`.
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

    /// Records an event behind the frees of a queue's stream if possible. Returns false if a
    /// capture prevents a wait for the oldest block of the queue.
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

    /// Finds streams by id. The number of events is not limited, because each free may need its
    /// own.
    stream_timelines<Platform> timelines_{false, false, ~std::size_t{0}};
    heap_array<queue>          queues_; ///< one queue of freed blocks for each stream
    std::uint64_t              next_age_ = 0;
    std::size_t                bytes_    = 0;
};

} // namespace detail
} // namespace vram
