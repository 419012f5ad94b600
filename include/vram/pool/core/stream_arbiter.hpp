// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_arbiter` decides which stream may use the freed memory of a pool, and makes streams wait
/// if needed.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/concepts/core/is_captured.hpp>
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/order/core/availability.hpp>
#include <vram/order/core/stream_timelines.hpp>
#include <vram/pool/event_policy.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Selects free memory for a request: first memory that the stream may use at once, then memory
/// that, as a query shows, no stream uses, then memory for which the stream, or the host, must
/// wait. Also records the last uses of freed blocks. A stream under capture neither waits nor
/// queries events.
/// `Candidates` are the free memory of a heap; a place is a part of a free block:
///
///     find(price)                 returns the place with the least `cost` (wait), in block `where`
///     query()                     queries events; returns true to search again
///     uses(place), uses_of(block) return the pending uses
///     take(place, captured)       allocates a place
///     reserve(place)              reserves a place during a wait of the host
///     accept(block)               allocates a reserved block
///     put_back(block)             undoes `reserve`
///     retain(block, timeline)     keeps memory freed during a capture for the captured graph
///
/// Functions with a `guard` release the lock during waits.
///
/// Failure   Errors of the platform and `std::bad_alloc` are rethrown; nothing has changed then.
/// Threads   One thread at a time, which holds the heap's lock.
template <class Platform>
class stream_arbiter {
public:
    using stream   = typename Platform::stream;
    using guard    = typename platform_lock<Platform>::guard;
    using timeline = typename stream_timelines<Platform>::timeline;

    stream_arbiter(event_policy events, bool graphs) noexcept
        : timelines_{events == event_policy::lazy},
          events_{events},
          graphs_{graphs},
          plain_{events == event_policy::lazy && !graphs} {}

    /// The stream that asks for memory, and its record. Both pointers are null for the host.
    struct asker {
        stream const* on   = nullptr;
        timeline*     mine = nullptr;
        /// True if the stream is known to be in a capture, so that it must neither wait for events
        /// nor query them.
        bool captured = false;
    };
    /// Returns true if the stream is being captured. Returns false for the host (null).
    [[nodiscard]] static bool is_captured(stream const* on) {
        return detail::is_captured<Platform>(on);
    }
    /// Returns the requesting stream `on` (null: the host) with its timeline. If captures are
    /// tracked (`graphs`), also queries if the stream is being captured.
    [[nodiscard]] asker asker_for(stream const* on) {
        timeline* const mine = on != nullptr ? &timelines_.of(*on) : nullptr;
        return {on, mine, graphs_ && is_captured(on)};
    }

    /// Allocates memory of `candidates` for the asker, after a wait if needed, or returns null. If
    /// `must_wait` is not null, sets it to true instead of waiting, and returns null.
    template <class Candidates>
    [[nodiscard]] auto acquire(Candidates& candidates, asker who, guard& held, bool* must_wait)
        -> decltype(candidates.put_back(nullptr)) {
        timelines_.readmit();
        for (bool queried = false;;) {
            auto const place = candidates.find(timelines_.for_asker(who.mine, who.captured));
            if (place.cost == availability::ready) { return candidates.take(place, who.captured); }
            if (place.cost == availability::unavailable) { return nullptr; }
            if (is_captured(who.on)) { // a stream that is being captured must not wait
                who.captured = true;
                continue;
            }
            if (!std::exchange(queried, true) && candidates.query()) { continue; }
            if (must_wait == nullptr) {
                auto* const b = take_after_wait(candidates, place, who.mine, held);
                if (b != nullptr) { return b; }
                continue;
            }
            if (!std::exchange(*must_wait, true)) {
                // Streams may be done although no query has shown that yet: records and queries
                // their events.
                timelines_.ask(candidates.uses(place));
                continue;
            }
            timeline const* const captured = timelines_.in_capture(candidates.uses(place));
            if (captured == nullptr) { return nullptr; }
            make_unavailable(*captured, [&] { candidates.retain(place.where, *captured); });
            // No wait helps, because a captured stream may use the place: resets `must_wait`, and
            // searches for another place.
            *must_wait = false;
        }
    }
    /// Makes the stream of `mine` (null: the host) wait for the users of the memory at `place`, and
    /// allocates it. Returns null if one of the users is being captured.
    template <class Candidates, class Place>
    [[nodiscard]] auto take_after_wait(Candidates& candidates, Place const& place, timeline* mine,
                                       guard& held) -> decltype(candidates.put_back(nullptr)) {
        auto*           b        = place.where;
        timeline const* captured = nullptr;
        if (mine != nullptr) {
            captured = timelines_.order(*mine, candidates.uses(place));
            if (captured == nullptr) { return candidates.take(place, false); }
        } else {
            // Other threads may allocate during the wait, so the place is reserved first.
            b = candidates.reserve(place);
            try {
                do { // again if other threads have added uses of this memory during the wait
                    captured = timelines_.finish(candidates.uses_of(b), held);
                } while (captured == nullptr && !is_ready(candidates.uses_of(b)));
            } catch (...) {
                candidates.put_back(b);
                throw;
            }
            if (captured == nullptr) { return candidates.accept(b); }
            b = candidates.put_back(b);
        }
        make_unavailable(*captured, [&] { candidates.retain(b, *captured); });
        return nullptr;
    }
    /// Makes the host wait for the streams in `held`. If a capture prevents the wait for one,
    /// stops, and makes its freed memory unavailable, so that the caller can search for other
    /// memory.
    template <class Retain>
    void wait_on_host(tags const& held, guard& lock, Retain const& retain) {
        timeline const* const captured = timelines_.finish(held, lock);
        if (captured != nullptr) {
            make_unavailable(*captured, [&] { retain(*captured); });
        }
    }

    /// The result of recording the last use of a freed block.
    enum class freed {
        recorded, ///< the stream that may still use the block was recorded
        idle,     ///< no stream uses the block any more, so no stream was recorded
        /// The use could be neither recorded nor waited for, so the block must stay live.
        lost,
    };
    /// Records a free on the stream `s` by `record(slot, epoch)`: the index of the stream, and the
    /// part (epoch) of its work that may still use the block. On failure, reports the error and
    /// waits for `s`.
    template <class Record>
    [[nodiscard]] freed record_free(stream s, void* p, std::size_t bytes,
                                    Record const& record) noexcept {
        try {
            timeline& its = timelines_.of(s);
            if (!plain_ && is_captured(&s)) {
                record(its.slot(), its.epoch_of_captured_free());
                return freed::recorded;
            }
            record(its.slot(), its.epoch_of_free());
            record_if_eager(its);
            return freed::recorded;
        } catch (...) { report_unrecorded(p, name_of_stream<Platform>(s)); }
        return waited(timelines_.wait_for_user(s), p, bytes, name_of_stream<Platform>(s));
    }
    /// Same as `record_free` for a free that another thread queued. Does not query `s`, which that
    /// thread may be capturing; on failure waits for whole devices.
    template <class Record>
    [[nodiscard]] freed record_remote_free(stream s, void* p, std::size_t bytes,
                                           Record const& record) noexcept {
        try {
            if (timeline* const its = timelines_.of_another(s)) {
                record(its->slot(), its->epoch_of_free());
                return freed::recorded;
            }
        } catch (...) { report_unrecorded(p, {}); }
        return waited(timelines_.wait_for_all_devices(), p, bytes, {});
    }
    /// With `event_policy::eager`, tries to record an event behind the frees on the stream of the
    /// timeline `its`. Otherwise does nothing.
    void record_if_eager(timeline& its) noexcept {
        if (events_ == event_policy::eager) { its.try_record(); }
    }

    /// Returns a function that takes a `tag` (a stream's pending use of freed memory) and returns
    /// true if that use is complete.
    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines_.is_complete(t); };
    }
    /// Returns true if all pending uses in `held` (streams that may still use freed memory) are
    /// complete.
    [[nodiscard]] bool is_ready(tags const& held) const noexcept {
        return timelines_.of(held, nullptr, false) == availability::ready;
    }
    [[nodiscard]] bool tracks_graphs() const noexcept { return graphs_; }
    /// `plain` returns true if a free neither records an event nor queries the capture status
    /// (`event_policy::lazy` without `graphs`).
    [[nodiscard]] bool                              plain() const noexcept { return plain_; }
    [[nodiscard]] stream_timelines<Platform>&       timelines() noexcept { return timelines_; }
    [[nodiscard]] stream_timelines<Platform> const& timelines() const noexcept {
        return timelines_;
    }

private:
    /// Withholds the memory that a captured stream has freed since its last event: until the next
    /// request or, if frees do not query captures (`plain_`), by `retain` until `forget_captures`.
    template <class Retain>
    void make_unavailable(timeline const& captured, Retain const& retain) noexcept {
        plain_ ? retain() : timelines_.exclude(captured.slot());
    }
    static void report_unrecorded(void* p, stream_name const& of) noexcept {
        report_caught({.kind    = error_kind::platform_error,
                       .pointer = p,
                       .stream  = of,
                       .call    = "recording the stream of a free"});
    }
    /// `done`: the host has waited for the users of a freed block. Returns `idle` then; otherwise
    /// reports a leak and returns `lost`.
    static freed waited(bool done, void* p, std::size_t bytes, stream_name const& of) noexcept {
        if (done) { return freed::idle; }
        report_error({.kind    = error_kind::leak,
                      .pointer = p,
                      .bytes   = bytes,
                      .stream  = of,
                      .cause   = "its stream could be neither recorded nor waited for"});
        return freed::lost;
    }

    stream_timelines<Platform> timelines_;
    event_policy               events_;
    bool                       graphs_;
    bool                       plain_;
};

} // namespace detail
} // namespace vram
