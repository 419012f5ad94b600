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

/// Selects free memory for a stream, in this order: memory that is ready, memory that is ready
/// after queries of other streams, memory that is ready after one wait. Also records the last use
/// of freed memory. It contains all rules for streams that are being captured:
///
/// - Such a stream neither waits nor queries. It gets memory that it freed during its own captures,
///   and memory without pending uses (which no stream may still access).
/// - Memory that such a stream freed after its last event cannot be waited for. If captures are
///   tracked (`graphs` or `event_policy::eager`), each free during a capture is marked. Memory of
///   an unmarked free, which was made before the capture, is left out until the next search. If
///   captures are not tracked, the memory may belong to the graph, and is graph-retained (kept for
///   the graph until `forget_captures`).
///
/// A heap passes its free memory as an object with these functions. `place` is a candidate:
///
///     find(price)              returns the best place, with its block `where` and its `cost`
///     query()                  called once, before the first wait: may query events to find
///                              ready memory; returns true to search again
///     uses(place)              returns the pending uses of the place
///     take(place, captured)    allocates the place, and returns the block; `captured`: the graph
///                              of the stream that asks may use it
///     reserve(place)           reserves the place while the host waits, and returns the block
///     uses_of(block)           returns the pending uses of a reserved block
///     accept(block)            allocates a reserved block without pending uses, and returns it
///     put_back(block)          undoes `reserve`, and returns the block that is free afterwards
///     retain(block, timeline)  retains memory that the captured stream of `timeline` has freed
///
/// Functions that take a lock guard are called with the lock held. Those that wait on the host
/// unlock it during the wait.
///
/// Failure   `std::bad_alloc` may be thrown for a stream that was not met before. Errors of the
///           platform are rethrown. Nothing has changed in either case.
/// Threads   One thread at a time, which holds the heap's lock.
/// Cost      Ready memory costs no call of the platform, except a query if captures are tracked.
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

    /// The stream that asks for memory, and the record of its progress. Both pointers are null for
    /// the host.
    struct asker {
        stream const* on   = nullptr;
        timeline*     mine = nullptr;
        /// True if the stream is known to be in a capture: it must neither wait nor query. False if
        /// the stream is in no capture, or if that is not known.
        bool captured = false;
    };
    /// Returns true if the stream is being captured. Returns false for the host (null).
    [[nodiscard]] static bool is_captured(stream const* on) {
        return detail::is_captured<Platform>(on);
    }
    /// Returns the `asker` for the stream `on` (null: the host): the stream that asks for memory,
    /// with the record of its progress. If captures of graphs are tracked, queries if the stream is
    /// being captured. Otherwise `captured` is false.
    [[nodiscard]] asker asker_for(stream const* on) {
        timeline* const mine = on != nullptr ? &timelines_.of(*on) : nullptr;
        return {on, mine, graphs_ && is_captured(on)};
    }

    /// Allocates memory of `candidates`, the free memory of a heap, for a stream or for the host.
    /// If all suitable memory needs a wait, makes the stream wait, or the host, which unlocks
    /// `held` during the wait. If `must_wait` is not null, sets `*must_wait` to true and returns
    /// null instead of waiting. Returns null if no memory is available, not even after a wait.
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
                // The streams may be done with the memory although no event shows that yet. So
                // events are recorded and queried before a wait.
                timelines_.ask(candidates.uses(place));
                continue;
            }
            timeline const* const captured = timelines_.in_capture(candidates.uses(place));
            if (captured == nullptr) { return nullptr; }
            make_unavailable(*captured, [&] { candidates.retain(place.where, *captured); });
            // A stream that may use this place is being captured, so no wait makes the place
            // available. The next turn searches for another place.
            *must_wait = false;
        }
    }
    /// Makes the stream of `mine` (null: the host) wait for the streams that may still access the
    /// memory at `place`, then allocates that memory. If one of those streams is being captured,
    /// returns null: the memory that the captured stream has freed becomes unavailable until the
    /// next request if captures are tracked (`graphs` or `event_policy::eager`), and until
    /// `forget_captures` if not.
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
                do { // other threads may add uses of the place by streams during the wait
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
    /// Makes the host wait for the streams in `held`, which may still access freed memory. `lock`
    /// is unlocked during the wait. Stops at a stream that is being captured: the memory that this
    /// stream freed since its last event is unavailable to all other streams until the next search
    /// for memory. If captures are not tracked (neither by `graphs` nor by `event_policy::eager`),
    /// `retain(timeline)` keeps that memory for the captured graph instead.
    template <class Retain>
    void wait_on_host(tags const& held, guard& lock, Retain const& retain) {
        timeline const* const captured = timelines_.finish(held, lock);
        if (captured != nullptr) {
            make_unavailable(*captured, [&] { retain(*captured); });
        }
    }

    /// The result of `record_free`, which records that a stream may still use a freed block.
    enum class freed {
        recorded, ///< the stream that may still use the block was recorded
        idle,     ///< no stream uses the block any more, so no use was recorded
        /// The use could be neither recorded nor waited for, so the block must stay live.
        lost,
    };
    /// Records that the stream `s` may still use the freed `bytes` at `p`: calls `record(slot,
    /// epoch)` for the stream's index and the epoch (part of its work) until which it may use them;
    /// the epoch `tag::captured` stands for a graph. Returns `recorded`. If recording fails, waits
    /// for the stream and returns `idle`, or `lost` if the wait fails as well. Errors are reported,
    /// not thrown.
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
    /// Records the last use of a block as `record_free` does, for a free that another thread
    /// queued. The stream is not queried, because that thread may be capturing it. If the id of the
    /// stream is not known from an earlier call, the host waits for the devices instead.
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
    /// Records an event behind the latest frees of a stream if the option `events` of the resource
    /// is `event_policy::eager`.
    void record_if_eager(timeline& its) noexcept {
        if (events_ == event_policy::eager) { its.try_record(); }
    }

    /// Returns a function object that returns true for a pending use (of freed memory by a stream)
    /// that is complete.
    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines_.is_complete(t); };
    }
    /// Returns true if the host may use memory with these pending uses (by streams) now.
    [[nodiscard]] bool is_ready(tags const& held) const noexcept {
        return timelines_.of(held, nullptr, false) == availability::ready;
    }
    [[nodiscard]] bool tracks_graphs() const noexcept { return graphs_; }
    /// Returns true if a free records no event and makes no query of its stream's capture status.
    /// This is the case with `event_policy::lazy`, if captures of graphs are not tracked.
    [[nodiscard]] bool                              plain() const noexcept { return plain_; }
    [[nodiscard]] stream_timelines<Platform>&       timelines() noexcept { return timelines_; }
    [[nodiscard]] stream_timelines<Platform> const& timelines() const noexcept {
        return timelines_;
    }

private:
    /// Called if a stream cannot be waited for because it is being captured. If captures are
    /// tracked (`graphs` or `event_policy::eager`), makes the memory that this stream has freed
    /// since its last event unavailable to other streams until the next search (`readmit`).
    /// Otherwise calls `retain()`, which keeps the memory for the captured graph.
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
    /// Called if the last use of a freed block could not be recorded. If `done` (the host has
    /// waited for the stream instead), returns `idle`. Otherwise reports a leak and returns `lost`:
    /// the block must stay live.
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
