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

/// Selects free memory for a request of a stream or of the host. The first choice is memory that
/// may be used at once. Otherwise events may be queried, to find memory that no stream uses any
/// more. The last choice is memory for which the requesting stream, or the host, waits. A stream
/// that is being captured neither waits nor queries events. The class also records which stream may
/// still use a freed block.
/// A `Candidates` object gives access to the free memory of one heap. A place is a part of a free
/// block:
///
///     find(price)                 returns the best place: its block `where`, and its wait `cost`
///     query()                     queries events; returns true if `find` is to be called again
///     uses(place), uses_of(block) return which streams may still use the memory
///     take(place, captured)       allocates a place without a wait of the host
///     reserve(place)              withholds a place from other threads while the host waits
///     accept(block)               after the wait: allocates the block that `reserve` returned
///     put_back(block)             after a failed wait: undoes `reserve`
///     retain(block, timeline)     keeps memory freed during a capture for the captured graph
///
/// Functions with a `guard` parameter release the lock while the host waits.
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

    /// The stream that requests memory, and its timeline (the record of the stream's progress).
    /// Both pointers are null if the host requests memory.
    struct asker {
        stream const* on   = nullptr;
        timeline*     mine = nullptr;
        /// True if the stream is known to be in a capture, so that it must neither wait for events
        /// nor query them.
        bool captured = false;
    };
    /// Returns true if the stream is being captured. For the legacy default stream of CUDA, also
    /// returns true if the capture of another stream forbids its use. Returns false for the host
    /// (null).
    [[nodiscard]] static bool is_captured(stream const* on) {
        return detail::is_captured<Platform>(on);
    }
    /// Returns the requesting stream `on` and its timeline (the record of its progress). Both are
    /// null for the host. With `pool_options::graphs`, also queries if the stream is being
    /// captured.
    [[nodiscard]] asker asker_for(stream const* on) {
        timeline* const mine = on != nullptr ? &timelines_.of(*on) : nullptr;
        return {on, mine, graphs_ && is_captured(on)};
    }

    /// Allocates from `candidates`, the free memory of a heap, for `who` (a stream or the host). If
    /// `must_wait` is null, this stream or the host waits if needed. If `must_wait` is not null,
    /// nothing waits, and `*must_wait` becomes true if a wait would help. Returns null on failure.
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
                // Queries if the streams that may still use the memory are done with it by now.
                // `ask` also records the events that this query needs.
                timelines_.ask(candidates.uses(place));
                continue;
            }
            timeline const* const captured = timelines_.in_capture(candidates.uses(place));
            if (captured == nullptr) { return nullptr; }
            make_unavailable(*captured, [&] { candidates.retain(place.where, *captured); });
            // A stream that is being captured may use the memory, so a wait would not help. The
            // loop searches for other memory.
            *must_wait = false;
        }
    }
    /// Makes the stream of `mine` (null: the host) wait for the streams that may still use the
    /// memory at `place`, then allocates this memory. Returns null if a capture prevents the wait.
    template <class Candidates, class Place>
    [[nodiscard]] auto take_after_wait(Candidates& candidates, Place const& place, timeline* mine,
                                       guard& held) -> decltype(candidates.put_back(nullptr)) {
        auto*           b        = place.where;
        timeline const* captured = nullptr;
        if (mine != nullptr) {
            captured = timelines_.order(*mine, candidates.uses(place));
            if (captured == nullptr) { return candidates.take(place, false); }
        } else {
            // Reserves the memory before the host waits, because other threads may allocate during
            // the wait.
            b = candidates.reserve(place);
            try {
                do { // repeats the wait if other threads have added uses of the memory meanwhile
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
    /// Makes the host wait for the streams in `held`, which may still use freed memory. If a
    /// capture prevents the wait for a stream, the function returns at once. The memory freed on
    /// that stream is then withheld, so that the next search finds other memory.
    template <class Retain>
    void wait_on_host(tags const& held, guard& lock, Retain const& retain) {
        timeline const* const captured = timelines_.finish(held, lock);
        if (captured != nullptr) {
            make_unavailable(*captured, [&] { retain(*captured); });
        }
    }

    /// The result of recording the last use of a freed block.
    enum class freed {
        recorded, ///< the stream that freed the block is recorded as a user of the block
        idle,     ///< no stream uses the block any more, for example after a wait
        /// The stream that freed the block can neither be recorded as a user of the block nor
        /// waited for. The block must stay live.
        lost,
    };
    /// Records that the stream `s`, which freed the block at `p`, may still use the block. Calls
    /// `record(slot, epoch)` with the index of the stream and the number of the part of its work
    /// that may use the block. On failure, reports the error and makes the host wait for `s`.
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
    /// Same as `record_free`, for a free that another thread has queued. Makes no query of `s`,
    /// because that thread may be capturing `s`. If `s` cannot be recorded as a user of the block,
    /// the host waits for the devices of all known streams.
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
    /// With `event_policy::eager`, tries to record an event behind the frees on the stream that has
    /// the timeline `its` (the record of the stream's progress). With `lazy`, does nothing.
    void record_if_eager(timeline& its) noexcept {
        if (events_ == event_policy::eager) { its.try_record(); }
    }

    /// Returns a function that takes a `tag` (a stream's pending use of freed memory) and returns
    /// true if that use is complete.
    [[nodiscard]] auto is_complete() const noexcept {
        return [this](tag const& t) { return timelines_.is_complete(t); };
    }
    /// Returns true if all pending uses in `held` (streams that may still use freed memory) are
    /// known to be complete. Queries no stream.
    [[nodiscard]] bool is_ready(tags const& held) const noexcept {
        return timelines_.of(held, nullptr, false) == availability::ready;
    }
    [[nodiscard]] bool tracks_graphs() const noexcept { return graphs_; }
    /// `plain()` is true with `event_policy::lazy` and without `pool_options::graphs`. A free then
    /// records no event, and does not query if the stream is being captured.
    [[nodiscard]] bool                              plain() const noexcept { return plain_; }
    [[nodiscard]] stream_timelines<Platform>&       timelines() noexcept { return timelines_; }
    [[nodiscard]] stream_timelines<Platform> const& timelines() const noexcept {
        return timelines_;
    }

private:
    /// Called if nothing can wait for the stream of `captured`, because it is being captured. Other
    /// streams then cannot get the memory that this stream has freed since its last event. If
    /// `plain_` is true, `retain` withholds the memory until `forget_captures`. Otherwise it is
    /// withheld until the next request.
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
    /// `done`: true if the host has waited for the work that may use the block at `p`. Returns
    /// `idle` then. Otherwise reports the block as a leak and returns `lost`.
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
