// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_bump` is the bump allocator of `monotonic`: it orders streams and unwinds allocations.

#include <vram/base/core/heap_array.hpp>            // heap_array
#include <vram/base/core/report_caught.hpp>         // report_caught
#include <vram/base/error.hpp>                      // report_error
#include <vram/concepts/core/is_default_stream.hpp> // is_default_stream
#include <vram/concepts/core/is_ending.hpp>         // is_ending
#include <vram/concepts/core/name_of_stream.hpp>    // name_of_stream
#include <vram/concepts/core/platform_lock.hpp>     // platform_lock
#include <vram/concepts/core/refused_free.hpp>      // refused_free
#include <vram/concepts/core/stream_standing.hpp>   // standing_of, was_reset
#include <vram/order/core/availability.hpp>         // availability
#include <vram/order/core/stream_timelines.hpp>     // stream_timelines
#include <vram/pool/core/bump_chunk.hpp>            // bump_chunk
#include <vram/pool/core/bump_stack.hpp>            // bump_stack
#include <vram/pool/event_policy.hpp>               // event_policy
#include <vram/pool/free_pieces.hpp>                // free_pieces

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move

namespace vram {
namespace detail {

/// The memory of a `monotonic` and the timelines of its streams. It knows nothing of the upstream.
/// Functions that take a lock guard are called with the lock held. Those that wait on the host
/// unlock it during the wait.
///
/// Failure   `std::bad_alloc` is thrown if host memory cannot be allocated, and errors of the
///           platform are rethrown. Nothing has changed then.
/// Threads   One thread at a time, which holds the lock.
/// Cost      See `bump_chunk` and `stream_timelines`.
template <class Platform>
class stream_bump {
public:
    using stream = typename Platform::stream;
    using guard  = typename platform_lock<Platform>::guard;
    using chunk  = bump_chunk<stream>;

    /// A request. `on` is the stream that uses the memory first, or null if any stream must be able
    /// to use it without a wait.
    struct request {
        std::size_t   bytes;
        std::size_t   alignment;
        stream const* on;
    };
    /// The address, size and alignment of a chunk of the upstream.
    struct piece {
        void*       base      = nullptr;
        std::size_t bytes     = 0;
        std::size_t alignment = 0;
    };

    stream_bump(event_policy events, bool graphs) noexcept
        : events_{events},
          graphs_{graphs},
          plain_{events == event_policy::lazy && !graphs},
          timelines_{events == event_policy::lazy, true} {}
    /// Allocates a block from the reserved memory, and makes its stream (or the host, for a request
    /// without a stream) wait for former users if needed. Returns null if there is no room.
    [[nodiscard]] void* take(request const& r, guard& held) {
        forget_ended();
        timeline* const mine     = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        bool            captured = mine != nullptr && graphs_ && Platform::capturing(*r.on);
        if (mine != nullptr && !captured && !stack_.empty()) {
            chunk&               c     = stack_.current();
            std::uintptr_t const start = c.place(r.bytes, r.alignment);
            if (start != 0 && c.try_extend(start, r.bytes, mine->id(), mine->slot())) {
                return reinterpret_cast<void*>(start);
            }
        }
        timelines_.readmit();
        while (!stack_.empty()) {
            chunk&               c     = stack_.current();
            std::uintptr_t const start = c.place(r.bytes, r.alignment);
            auto                 price = availability::ready;
            tags                 dear;
            if (start != 0) {
                c.for_each_wait(start + r.bytes, [&](tag const& t) {
                    auto const one = timelines_.of(tags{t}, mine, captured);
                    if (one > price) {
                        price = one;
                        dear  = tags{t};
                    }
                });
                if (price == availability::ready) {
                    c.reserve();
                    if (captured) { c.reserve_other(); }
                    return hand_out(c, start, r, mine);
                }
            }
            if (start == 0 || price == availability::unavailable) {
                if (!stack_.use_next(r.bytes, r.alignment)) { return nullptr; }
                continue;
            }
            if (mine != nullptr && !captured && Platform::capturing(*r.on)) {
                captured = true; // a stream that is being captured must not wait
                continue;
            }
            timeline const* const held_up =
                mine != nullptr ? timelines_.order(*mine, dear) : timelines_.finish(dear, held);
            // Other threads may have allocated during the wait, so search again.
            if (held_up == nullptr) { continue; }
            if (!exclude_or_retain(*held_up) && !stack_.use_next(r.bytes, r.alignment)) {
                return nullptr;
            }
        }
        return nullptr;
    }

    /// Adds a chunk that any stream may use.
    void add(piece const& p) { stack_.add({p.base, p.bytes, p.alignment}); }
    /// Adds a chunk that only the stream `order` (null: any stream) may use without a wait, and
    /// allocates `r` from it. If `order` is not null, `r.on` is the same stream.
    void* add(piece const& p, stream const* order, request const& r) {
        timeline* const mine = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        chunk           fresh{p.base, p.bytes, p.alignment};
        fresh.reserve();
        if (order != nullptr) { // other streams must wait until `order` has finished with the chunk
            fresh.wait_for(
                {fresh.begin(), fresh.begin() + p.bytes, mine->epoch_of_free(), mine->slot()});
            fresh.reserve();
        }
        chunk& c = stack_.add_current(std::move(fresh));
        if (order != nullptr && events_ == event_policy::eager) { mine->try_record(); }
        return hand_out(c, c.begin(), r, mine);
    }

    /// The result of freeing a block.
    enum class freed {
        done,
        no_block, ///< there is no such block, and nothing has changed
        /// The block stays live: its stream could be neither recorded nor waited for.
        lost,
    };
    /// Frees the `bytes` at `p`, which the stream `on` may still use (null: no stream).
    [[nodiscard]] freed give(void* p, std::size_t bytes, stream const* on) noexcept {
        if (on != nullptr && plain_ && give_quick(p, bytes, *on)) { return freed::done; }
        chunk* const c = stack_.used_around(p);
        run*         r = c != nullptr ? c->find(p, bytes) : nullptr;
        if (r == nullptr || bytes == 0 || bytes > r->bytes - r->freed) { return freed::no_block; }
        bool const newest = c == &stack_.current();
        bool const top    = newest && c->is_on_top(p, bytes);
        bool const cut    = top && try_cut(*c, p, bytes, on);
        if (top && !cut) { r = c->find(p, bytes); } // `try_cut` may have moved the array of runs
        if (!cut && !record_free(*c, *r, p, bytes, on)) { return freed::lost; }
        if (newest) { unwind_freed(*c); }
        return freed::done;
    }

    /// Completes the error of a rejected free with the kind of memory at its address. Blocks have
    /// no descriptors here, so a wrong size is recognised only if the block would end behind the
    /// memory that its stream allocated.
    [[gnu::cold]] void explain_refusal(refused_free& e) noexcept {
        void const* const p = e.what.pointer;
        if (!owns(p)) { return; }
        chunk* const     c  = stack_.used_around(p);
        run const* const r  = c != nullptr ? c->find(p, 1) : nullptr;
        auto const       at = reinterpret_cast<std::uintptr_t>(p);
        e.found_free();
        if (r != nullptr && (e.what.bytes == 0 || e.what.bytes > r->end - at)) {
            e.what.kind = error_kind::wrong_size;
        }
    }

    /// Creates a mark at the current position with the number `serial`, and returns it. If no
    /// allocation was made since the last mark, returns the number of that mark instead.
    std::uint64_t mark(std::uint64_t serial) { return stack_.mark(serial); }
    /// Returns true if the mark with the number `serial` exists and no unwind to an earlier
    /// position removed it.
    [[nodiscard]] bool has(std::uint64_t serial) const noexcept { return stack_.has(serial); }
    /// Frees all blocks allocated since the mark with the number `serial`, which must exist.
    /// Returns the bytes that had not been freed.
    std::size_t unwind(std::uint64_t serial) noexcept { return stack_.unwind(serial, tag_of()); }
    /// Frees all blocks and removes every mark. Returns the bytes that had not been freed.
    std::size_t reset() noexcept { return stack_.reset(tag_of()); }
    /// Called if no block is live: lets allocation start at the first chunk again, if there is no
    /// mark.
    void rewind() noexcept {
        if (!stack_.marked() && !stack_.at_start()) { reset(); }
    }

    /// Removes an idle chunk that no stream uses, and returns it; returns a chunk without bytes if
    /// there is none. Makes the host wait for streams if needed.
    [[nodiscard]] piece remove_idle(guard& held) {
        forget_ended();
        timelines_.readmit();
        for (;;) {
            tags              almost; // the pending uses of an idle chunk that can be waited for
            std::size_t const first_idle = stack_.first_idle();
            for (std::size_t i = stack_.chunks().size(); i-- != first_idle;) {
                chunk& c = stack_.chunks()[i];
                c.drop([&](tag const& t) { return timelines_.is_complete(t); });
                if (c.waits().size() == 0) {
                    chunk const gone = stack_.take_idle(i);
                    return {gone.base(), gone.bytes(), gone.alignment()};
                }
                tags const first{c.waits()[0]};
                if (almost.empty() && !held_up(c)) { almost = first; }
            }
            if (almost.empty()) { return {}; }
            timeline const* const captured = timelines_.finish(almost, held);
            if (captured != nullptr) { exclude_or_retain(*captured); }
        } // other threads may have allocated during the wait, so search again
    }
    /// Called at the end: waits for all streams.
    void wait_for_all(guard& held) noexcept { timelines_.wait_for_all(held); }

    /// Announces that a stream is about to be destroyed: its blocks count as used until now.
    void retire(stream s) {
        std::uint64_t const id    = Platform::id(s);
        bool                known = false;
        tag                 last{};
        each_run_of(id, [&](run&) { known = true; });
        if (known) { last = used_by(s); }
        timelines_.retire(s); // if `retire` throws, nothing has changed
        each_run_of(id, [&](run& r) {
            r.last  = last;
            r.ended = true;
        });
    }
    void forget_captures() noexcept {
        timelines_.forget_captures();
        for (chunk& c : stack_.chunks()) {
            c.end_captures([this](std::size_t slot) { return timelines_.after_captures(slot); });
        }
    }

    [[nodiscard]] bool        owns(void const* p) const noexcept { return stack_.owns(p); }
    [[nodiscard]] free_pieces free_memory() const noexcept { return stack_.free_memory(); }
    /// Returns the free bytes that some stream may still use.
    [[nodiscard]] std::size_t pending() const noexcept {
        std::size_t sum = 0;
        for (chunk const& c : stack_.chunks()) {
            std::size_t here = 0;
            for (tag const& t : c.waits()) {
                if (!timelines_.is_complete(t)) { here += t.end - t.begin; }
            }
            sum += here < c.room() ? here : c.room();
        }
        return sum;
    }
    [[nodiscard]] std::uint64_t      events() const noexcept { return timelines_.events(); }
    [[nodiscard]] std::uint64_t      waits() const noexcept { return timelines_.waits(); }
    [[nodiscard]] heap_array<chunk>& chunks() noexcept { return stack_.chunks(); }

private:
    using run      = typename chunk::run;
    using timeline = typename stream_timelines<Platform>::timeline;

    /// Makes memory that the captured stream may use unavailable, because the stream cannot be
    /// waited for. If captures are tracked, the memory is unavailable until the capture ends
    /// (returns false). Otherwise it may belong to the graph and is retained until captures are
    /// forgotten (returns true).
    bool exclude_or_retain(timeline const& captured) noexcept {
        if (!plain_) {
            timelines_.exclude(captured.slot());
            return false;
        }
        for (chunk& each : stack_.chunks()) {
            each.keep_for_capture(captured.slot(), captured.running());
        }
        return true;
    }
    /// Returns true if part of the chunk is retained for a graph, or may be used by a stream that
    /// is being captured.
    [[nodiscard]] bool held_up(chunk const& c) const noexcept {
        for (tag const& t : c.waits()) {
            if (timelines_.of(tags{t}, nullptr, false) == availability::unavailable) {
                return true;
            }
        }
        return false;
    }
    static void* hand_out(chunk& c, std::uintptr_t start, request const& r,
                          timeline const* mine) noexcept {
        c.take(start, r.bytes, r.on, mine != nullptr ? mine->id() : 0);
        return reinterpret_cast<void*>(start);
    }
    /// Fast path of a free of the block on top. Returns false and changes nothing if it does not
    /// apply.
    bool give_quick(void* p, std::size_t bytes, stream on) noexcept {
        timeline* last = nullptr;
        if (stack_.empty() || !stack_.current().owns(p)) { return false; }
        try {
            last = timelines_.known(on);
        } catch (...) {} // `give` makes the call again and reports the error
        if (last == nullptr) { return false; }
        if (!stack_.current().try_pop(p, bytes, {0, 0, last->epoch_of_free(), last->slot()})) {
            return false;
        }
        unwind_freed(stack_.current());
        return true;
    }
    /// Lowers the top below the runs of blocks at the end of the chunk that are entirely freed.
    /// Skipped if host memory for their pending uses cannot be allocated.
    void unwind_freed(chunk& c) noexcept {
        std::uintptr_t const to = c.freed_from();
        if (to == c.top()) { return; }
        try {
            c.reserve();
        } catch (...) { return; } // tried again with the next free
        c.unwind(to, tag_of());
    }
    /// Frees the block on top by lowering the top. Returns false if that is not possible: host
    /// memory cannot be allocated, or the stream cannot be recorded.
    bool try_cut(chunk& c, void* p, std::size_t bytes, stream const* on) noexcept {
        try {
            c.reserve();
            tag t{};
            if (on != nullptr) { t = used_by(*on); }
            c.cut(p, bytes);
            if (on != nullptr) { c.wait_for({c.top(), c.top() + bytes, t.epoch, t.slot}); }
            return true;
        } catch (...) { return false; }
    }
    /// Records the free of a block that is not on top, last used by `on`. If the stream cannot be
    /// recorded, waits for it. If that fails as well, reports a leak and returns false.
    bool record_free(chunk& c, run& r, void* p, std::size_t bytes, stream const* on) noexcept {
        bool own = false;
        try {
            own = on != nullptr && r.named && timelines_.of(*on).id() == r.id;
            // A graph may use the block if it is freed during a capture. The run may end after the
            // capture, so the end of the run does not tell.
            if (on != nullptr && (!own || (graphs_ && Platform::capturing(*on)))) {
                tag t   = used_by(*on);
                t.begin = reinterpret_cast<std::uintptr_t>(p);
                t.end   = t.begin + bytes;
                c.reserve_other();
                c.record_use(t);
            }
        } catch (...) {
            report_caught({.kind     = error_kind::platform_error,
                           .pointer  = p,
                           .bytes    = bytes,
                           .resource = "monotonic",
                           .call     = "recording the stream of a free"});
            if (!timelines_.wait_for_user(*on)) {
                report_error({.kind     = error_kind::leak,
                              .pointer  = p,
                              .bytes    = bytes,
                              .resource = "monotonic",
                              .cause    = "its stream could be neither recorded nor waited for"});
                return false;
            }
        }
        r.freed += bytes;
        if (!own) { r.freed_by_others += bytes; }
        if (own && r.freed == r.bytes && events_ == event_policy::eager) { end_run(r, *on); }
        return true;
    }
    /// Records the pending use of a run after the stream that allocated it has freed all its
    /// blocks, because that stream may be destroyed without notice.
    void end_run(run& r, stream on) noexcept {
        try {
            r.last  = used_by(on);
            r.ended = true;
        } catch (...) {} // then the stream is queried when the run is unwound
    }

    /// Returns the pending use, without addresses, of everything that `s` has used until now.
    tag used_by(stream s) {
        timeline&  c     = timelines_.of(s);
        bool const eager = events_ == event_policy::eager;
        if ((eager || graphs_) && Platform::capturing(s)) {
            return {0, 0, c.epoch_of_captured_free(), c.slot()};
        }
        tag const out{0, 0, c.epoch_of_free(), c.slot()};
        if (eager) { c.try_record(); }
        return out;
    }
    /// Calls `visit(run)` for each run of that stream that has not ended.
    template <class Visit>
    void each_run_of(std::uint64_t id, Visit const& visit) noexcept {
        for (chunk& c : stack_.chunks()) {
            for (run& r : c.runs()) {
                if (r.named && !r.ended && r.id == id) { visit(r); }
            }
        }
    }
    /// Returns the function that tells which stream may still use a run that is unwound. If that is
    /// unknown, devices are waited for. If that fails, the memory counts as graph-retained.
    auto tag_of() noexcept {
        return [this](run const& r, tag& out) noexcept {
            if (!r.named) { return false; }
            if (r.ended) {
                out = r.last;
                return true;
            }
            try {
                if (timeline* const its = timeline_of(r)) {
                    out = used_by_another(*its, r.user);
                    return true;
                }
                dead(r);
            } catch (...) { // the stream may well exist
                report_error({.kind = error_kind::platform_error});
            }
            bool const there = standing_of<Platform>(r.user, r.id) == stream_standing::there;
            if ((!there || !timelines_.captures(r.user)) && timelines_.wait_for_devices()) {
                return false;
            }
            timeline& any = timelines_.by_id(r.id);
            out           = tag{0, 0, any.epoch_of_captured_free(), any.slot()};
            return true;
        };
    }
    /// Returns the timeline of the stream that allocated a run, which may belong to another thread.
    /// Returns null if the stream was destroyed, or if its handle means another stream on this
    /// thread.
    [[nodiscard]] timeline* timeline_of(run const& r) {
        timeline& met = timelines_.by_id(r.id);
        if (met.id() == r.id) { // if the stream was destroyed, that is reported elsewhere
            return !met.alive() || met.is_there() ? &met : nullptr;
        }
        if (standing_of<Platform>(r.user, r.id) != stream_standing::there) { return nullptr; }
        timeline* const found = timelines_.of_another(r.user);
        return found != nullptr && found->id() == r.id ? found : nullptr;
    }
    /// As `used_by`, for a stream that may belong to another thread.
    [[nodiscard]] tag used_by_another(timeline& c, stream s) {
        bool const eager = events_ == event_policy::eager;
        bool const looks = (eager || graphs_) && c.alive() && !c.ended();
        if (looks && Platform::capturing(s)) {
            return {0, 0, c.epoch_of_captured_free(), c.slot()};
        }
        tag const out{0, 0, c.epoch_of_free(), c.slot()};
        if (eager) { c.try_record_event(); }
        return out;
    }
    /// Records that streams announced as destroyed since the last call used their runs until now.
    void forget_ended() noexcept {
        timelines_.forget_ended([this](timeline& c) {
            each_run_of(c.id(), [&](run& r) {
                r.last  = {0, 0, c.epoch_of_free(), c.slot()};
                r.ended = true;
            });
        });
    }

    /// Reports that the stream of a run, not a default stream, was destroyed without notice.
    static void dead(run const& r) noexcept {
        if (is_default_stream<Platform>(r.user) || is_ending<Platform>()) { return; }
        if (was_reset<Platform>(r.user, r.id)) { return; }
        report_error(
            {.kind = error_kind::dead_stream, .stream = name_of_stream<Platform>(r.user, r.id)});
    }

    event_policy events_;
    bool         graphs_;
    bool         plain_; ///< true if a free needs neither an event nor a check for captures
    stream_timelines<Platform> timelines_;
    bump_stack<stream>         stack_;
};

} // namespace detail
} // namespace vram
