// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `waiting_frees` keeps blocks that came back until the streams that used them are past that
/// place.

#include <vram/base/error.hpp>         // report_error
#include <vram/concepts/platform.hpp>  // has_streams, has_events
#include <vram/layer/freed_blocks.hpp> // freed_blocks
#include <vram/layer/sure_wait.hpp>    // sure_wait

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // exchange, move
#include <vector>  // vector

namespace vram {

/// One queue of batches for each stream, oldest first; a batch is some blocks and the one event
/// that covers them. Batches and their events are reused.
///
/// Failure   what the platform throws; nothing is lost by it
/// Threads   one at a time: the owner has the lock. `wait` alone is called without it
/// Cost      `add` and `collect` look through the streams that have something waiting; per batch
///           one event is recorded, and one asked for at each `collect` until it is done
template <class Platform>
    requires has_streams<Platform> && has_events<Platform>
class waiting_frees {
public:
    using stream = typename Platform::stream;
    using device = typename Platform::device;
    using event  = typename Platform::event;
    using link   = freed_blocks::link;

    /// Blocks that wait for one place in a stream's order.
    class batch {
        friend class waiting_frees;

        explicit batch(device const& d) : where{d}, place{d} {}

        enum class stage { open, recorded, unrecordable, done };

        device        where;
        event         place;
        stage         now = stage::open;
        freed_blocks  blocks;
        std::uint64_t age    = 0;
        unsigned      pins   = 0;     ///< how many hosts wait for it
        bool          queued = false; ///< in a stream's queue, or gone from there while pinned
        batch*        next   = nullptr;
    };

    waiting_frees() = default;
    waiting_frees(waiting_frees&& other) noexcept
        : lines_{std::move(other.lines_)},
          spare_{std::exchange(other.spare_, nullptr)},
          next_age_{other.next_age_},
          bytes_{std::exchange(other.bytes_, 0)},
          events_{std::exchange(other.events_, 0)} {
        other.lines_.clear();
    }
    waiting_frees& operator=(waiting_frees&&) = delete;
    ~waiting_frees() {
        for (line& each : lines_) { destroy(each.first); }
        destroy(spare_);
    }

    /// Takes a block that was last used on `s`. The event is recorded when the batch has
    /// `per_event` blocks. When this throws, the link is still the caller's.
    void add(stream const& s, link* one, std::size_t per_event) {
        line&  queue = line_of(s);
        bool   fresh = queue.last == nullptr || queue.last->now != batch::stage::open;
        batch* into  = fresh ? obtain(Platform::device_of(s)) : queue.last;
        if (into->blocks.count() + 1 >= per_event) {
            try {
                Platform::record(into->place, s);
            } catch (...) {
                if (fresh) { recycle(into); }
                throw;
            }
            ++events_;
            into->now = batch::stage::recorded;
        }
        bytes_ += one->bytes;
        into->blocks.push(one);
        if (fresh) {
            (queue.last ? queue.last->next : queue.first) = into;
            queue.last                                    = into;
        }
    }

    /// Records the event of a batch of `s` that is still open. The stream may be destroyed after
    /// it.
    void close(stream const& s) {
        auto const id = Platform::id(s);
        for (line& each : lines_) {
            if (each.id == id) { close(each); }
        }
    }

    /// Adds to `free` every block whose stream is past it. When a question throws, what was found
    /// before is there.
    void collect(freed_blocks& free) {
        for (std::size_t i = 0; i < lines_.size();) {
            line& queue = lines_[i];
            close(queue);
            while (queue.first != nullptr && done(*queue.first)) { take_first(queue, free); }
            if (queue.first != nullptr) {
                ++i;
            } else {
                std::swap(queue, lines_.back());
                lines_.pop_back();
            }
        }
    }

    /// A batch that somebody waits for: it stays what it is until `unpin`.
    struct pin {
        batch* at = nullptr; ///< null: nothing waits
        bool   recorded{};

        /// Makes the host wait. Without the owner's lock.
        void wait() const {
            if (recorded) {
                Platform::synchronize(at->place);
            } else {
                Platform::synchronize(at->where);
            }
        }
    };

    /// The batch that waits longest.
    [[nodiscard]] pin pin_oldest() noexcept {
        line* oldest = nullptr;
        for (line& each : lines_) {
            if (each.first == nullptr) { continue; }
            if (oldest == nullptr || each.first->age < oldest->first->age) { oldest = &each; }
        }
        if (oldest == nullptr) { return {}; }
        close(*oldest);
        ++oldest->first->pins;
        return {oldest->first, oldest->first->now != batch::stage::unrecordable};
    }

    /// Ends `pin_oldest`; `waited`: its stream is known to be past it.
    void unpin(pin const& pinned, bool waited) noexcept {
        batch* const b = pinned.at;
        --b->pins;
        if (waited && b->queued) { b->now = batch::stage::done; }
        if (b->pins == 0 && !b->queued) { recycle(b); }
    }

    /// Waits for everything and hands it over: the end of the owner. What fails is told to the
    /// error sink; what may still be in use then is told as a leak, and handed to nobody.
    [[nodiscard]] freed_blocks settle() noexcept {
        freed_blocks free, lost;
        for (line& each : lines_) {
            close(each);
            while (each.first != nullptr) { take_first(each, over(*each.first) ? free : lost); }
        }
        lost.drain([](void* p, std::size_t bytes, std::size_t) {
            report_error({.kind = mishap::leak, .pointer = p, .bytes = bytes});
        });
        return free;
    }

    [[nodiscard]] bool          empty() const noexcept { return bytes_ == 0; }
    [[nodiscard]] std::size_t   bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }

private:
    struct line {
        std::uint64_t id;
        stream        s;
        batch*        first = nullptr;
        batch*        last  = nullptr;
    };

    line& line_of(stream const& s) {
        auto const id = Platform::id(s);
        for (line& each : lines_) {
            if (each.id == id) { return each; }
        }
        return lines_.emplace_back(line{id, s});
    }

    /// A batch whose event cannot be recorded (its stream is gone) is waited for through its
    /// device.
    void close(line& queue) noexcept {
        if (queue.last == nullptr || queue.last->now != batch::stage::open) { return; }
        try {
            // A default stream is another stream on another thread or device: no event there.
            bool const named = Platform::id(queue.s) == queue.id;
            if (named) {
                Platform::record(queue.last->place, queue.s);
                ++events_;
            }
            queue.last->now = named ? batch::stage::recorded : batch::stage::unrecordable;
        } catch (...) {
            queue.last->now = batch::stage::unrecordable;
            report_error({.kind = mishap::dead_stream, .bytes = queue.last->blocks.bytes()});
        }
    }

    [[nodiscard]] static bool done(batch const& b) {
        return b.now == batch::stage::done ||
               (b.now == batch::stage::recorded && Platform::done(b.place));
    }

    /// Waits for a batch at the end, where its event is not to be had any more for its device.
    [[nodiscard]] static bool over(batch const& b) noexcept {
        auto const where = [&] { return b.where; };
        if (b.now == batch::stage::unrecordable) { return sure_wait<Platform>(b.where, where); }
        return sure_wait<Platform>(b.place, where);
    }

    void take_first(line& queue, freed_blocks& into) noexcept {
        batch* const b = queue.first;
        queue.first    = b->next;
        if (queue.first == nullptr) { queue.last = nullptr; }
        bytes_ -= b->blocks.bytes();
        into.splice(b->blocks);
        b->queued = false;
        if (b->pins == 0) { recycle(b); }
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
    static void destroy(batch* first) noexcept {
        while (first != nullptr) { delete std::exchange(first, first->next); }
    }

    std::vector<line> lines_;
    batch*            spare_    = nullptr;
    std::uint64_t     next_age_ = 0;
    std::size_t       bytes_    = 0;
    std::uint64_t     events_   = 0;
};

} // namespace vram
