// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_bump` is the bump allocator of `monotonic`: it orders streams and unwinds allocations.

#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp> // report_error
#include <vram/concepts/core/platform_lock.hpp>
#include <vram/concepts/core/refused_free.hpp>
#include <vram/concepts/core/stream_standing.hpp> // standing_of
#include <vram/order/core/availability.hpp>
#include <vram/order/core/stream_timelines.hpp>
#include <vram/pool/core/bump_chunk.hpp>
#include <vram/pool/core/bump_stack.hpp>
#include <vram/pool/event_policy.hpp>
#include <vram/pool/free_pieces.hpp>

#include <cstddef> // size_t
#include <cstdint> // uintptr_t, uint64_t
#include <utility> // move

namespace vram {
namespace detail {

/// The memory of a `monotonic`, and the timelines (records of progress) of its streams. Does not
/// call the upstream. Functions that take a lock guard are called with the lock held. Those that
/// wait on the host unlock it during the wait.
///
/// Failure   `std::bad_alloc` is thrown if host memory cannot be allocated, and errors of the
///           platform are rethrown. Nothing has changed then.
/// Threads   One thread at a time, which holds the lock.
/// Cost      The cost is that of `bump_chunk` and `stream_timelines`.
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

    stream_bump(event_policy events, bool graphs) noexcept
        : eager_{events == event_policy::eager},
          graphs_{graphs},
          timelines_{events == event_policy::lazy, true} {}

    /// Allocates a block from the reserved memory, and makes its stream (or the host, for a request
    /// without a stream) wait for the streams that used the memory before, if needed. Returns null
    /// if there is no room.
    [[nodiscard]] void* take(request const& r, guard& held) {
        forget_ended();
        timeline* const mine     = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        bool const      in_graph = mine != nullptr && graphs_ && Platform::capturing(*r.on);
        if (mine != nullptr && !in_graph && !stack_.empty()) {
            chunk&               c     = stack_.current();
            std::uintptr_t const start = c.place(r.bytes, r.alignment);
            if (start != 0 && c.try_take(start, r.bytes, mine->id(), mine->slot())) {
                stack_.live_at_top() += r.bytes;
                return reinterpret_cast<void*>(start);
            }
        }
        timelines_.readmit();
        bool captured = in_graph;
        while (!stack_.empty()) {
            chunk&               c     = stack_.current();
            std::uintptr_t const start = c.place(r.bytes, r.alignment);
            auto                 price = availability::unavailable;
            tags                 costly;
            if (start != 0) {
                price = price_of(c, start + r.bytes, mine, captured, costly);
                if (price == availability::ready) {
                    c.reserve();
                    return hand_out(c, start, r, mine, in_graph);
                }
            }
            if (price == availability::unavailable) {
                if (!stack_.use_next(r.bytes, r.alignment)) { return nullptr; }
                continue;
            }
            if (mine != nullptr && !captured && Platform::capturing(*r.on)) {
                captured = true; // a stream that is being captured must not wait
                continue;
            }
            timeline const* const held_up =
                mine != nullptr ? timelines_.order(*mine, costly) : timelines_.finish(costly, held);
            if (held_up != nullptr) { exclude_or_retain(*held_up); }
            // Searched again, because other threads may have allocated during the wait.
        }
        return nullptr;
    }

    /// Adds a chunk that any stream may use.
    void add(chunk fresh) { stack_.add(std::move(fresh)); }
    /// Adds a chunk that only the stream `order` (null: any stream) may use without a wait, and
    /// allocates the request `r` from the chunk. If `order` is not null, `r.on` must be that
    /// stream.
    void* add(chunk fresh, stream const* order, request const& r) {
        timeline* const mine     = r.on != nullptr ? &timelines_.of(*r.on) : nullptr;
        bool const      in_graph = mine != nullptr && graphs_ && Platform::capturing(*r.on);
        fresh.reserve();
        if (order != nullptr) { // other streams must wait until `order` has finished with the chunk
            fresh.wait_for({fresh.begin(), fresh.end(), mine->epoch_of_free(), mine->slot()});
        }
        chunk& c = stack_.add_current(std::move(fresh));
        if (order != nullptr && eager_) { mine->try_record(); }
        return hand_out(c, c.begin(), r, mine, in_graph);
    }

    /// The result of freeing a block.
    enum class freed {
        done,
        no_block, ///< there is no such block, and nothing has changed
        /// The block stays live: its use could be neither recorded nor waited for.
        lost,
    };
    /// Counts the `bytes` at `p` as free, and records that the stream `on` (null: no stream) uses
    /// them until the memory is unwound.
    [[nodiscard]] freed give(void* p, std::size_t bytes, stream const* on) noexcept {
        auto const   at = reinterpret_cast<std::uintptr_t>(p);
        chunk* const c  = stack_.used_around(p);
        if (c == nullptr || bytes == 0 || bytes > c->top() - at) { return freed::no_block; }
        std::size_t& live = stack_.live_around(*c, at);
        if (bytes > live) { return freed::no_block; }
        if (on != nullptr && !record_use(*c, at, at + bytes, *on)) { return freed::lost; }
        live -= bytes;
        return freed::done;
    }
    /// Adds the kind of memory at its address to the error of a rejected free. Blocks have no
    /// descriptors here, so a wrong size is recognised only if the block would end behind the used
    /// memory of its chunk.
    [[gnu::cold]] void explain_refusal(refused_free& e) noexcept {
        if (!stack_.owns(e.what.pointer)) { return; }
        chunk const* const c  = stack_.used_around(e.what.pointer);
        auto const         at = reinterpret_cast<std::uintptr_t>(e.what.pointer);
        e.found_free();
        if (c != nullptr && (e.what.bytes == 0 || e.what.bytes > c->top() - at)) {
            e.what.kind = error_kind::wrong_size;
        }
    }

    /// Frees all blocks allocated since the mark with the number `serial` (0: all blocks and all
    /// marks). Each stream that allocated or freed some of them, and the stream `on` (null: no
    /// other stream), may still use them. Returns the bytes that were live. If the use by `on` can
    /// be neither recorded nor waited for, reports that, frees nothing and returns 0. Calls
    /// `visit(address, bytes)` for each range of blocks, before any of them is free.
    template <class Visit>
    std::size_t unwind(std::uint64_t serial, stream const* on, Visit const& visit) noexcept {
        if (on != nullptr && !record_unwind(serial, *on)) { return 0; }
        stack_.each_since(serial, [&](chunk& c, std::uintptr_t to) {
            if (to != c.top()) { visit(reinterpret_cast<void*>(to), c.top() - to); }
        });
        stack_.each_since(serial, [&](chunk& c, std::uintptr_t to) {
            c.unwind(to, [this](auto const& u) { return this->pending(u); });
            if (!eager_) { return; }
            for (tag const& t : c.waits()) { timelines_.try_record_events(tags{t}); }
        });
        return stack_.go_back(serial);
    }

    /// Removes an idle chunk (without an allocated block) that no stream uses, and returns it;
    /// returns a chunk without bytes if there is none. Makes the host wait for streams if needed.
    [[nodiscard]] chunk remove_idle(guard& held) {
        forget_ended();
        timelines_.readmit();
        for (;;) {
            // The uses of an idle chunk by streams for which the host can wait.
            tags              almost;
            std::size_t const first_idle = stack_.first_idle();
            for (std::size_t i = stack_.chunks().size(); i-- != first_idle;) {
                chunk& c = stack_.chunks()[i];
                c.drop([&](tag const& t) { return timelines_.is_complete(t); });
                if (c.waits().size() == 0) { return stack_.take_idle(i); }
                tags costly;
                if (almost.empty() &&
                    price_of(c, c.end(), nullptr, false, costly) != availability::unavailable) {
                    almost = costly;
                }
            }
            if (almost.empty()) { return {nullptr, 0, 0}; }
            timeline const* const captured = timelines_.finish(almost, held);
            if (captured != nullptr) { exclude_or_retain(*captured); }
        } // other threads may have allocated during the wait, so search again
    }
    /// Called at the end of the resource: makes the host wait for all streams.
    void wait_for_all(guard& held) noexcept { timelines_.wait_for_all(held); }

    /// Announces that the stream `s` is about to be destroyed: the work that it has now is the last
    /// that may use its blocks.
    void retire(stream s) {
        std::uint64_t const id    = Platform::id(s);
        bool                known = false;
        for (chunk& c : stack_.chunks()) {
            known = known || c.find_use(id, chunk::running) != nullptr;
        }
        tag const last = known ? used_by(timelines_.of(s)) : tag{};
        timelines_.retire(s); // first: if it throws, nothing has changed
        if (known) { end_uses(id, last); }
    }
    void forget_captures() noexcept {
        timelines_.forget_captures();
        for (chunk& c : stack_.chunks()) {
            c.end_captures([this](std::size_t slot) { return timelines_.after_captures(slot); },
                           [this](std::uint64_t id) {
                               timeline const& its = timelines_.by_id(id);
                               return its.id() == id && its.alive();
                           });
        }
    }

    /// Returns the free bytes that some stream may still use.
    [[nodiscard]] std::size_t pending() const noexcept {
        std::size_t sum = 0;
        for (chunk const& c : stack_.chunks()) {
            std::uintptr_t until = c.top();
            std::uintptr_t from  = c.end();
            for (tag const& t : c.waits()) {
                if (timelines_.is_complete(t)) { continue; }
                from  = t.begin < from ? t.begin : from;
                until = t.end > until ? t.end : until;
            }
            sum += from < until ? until - from : 0;
        }
        return sum;
    }
    /// Returns the chunks and marks.
    [[nodiscard]] bump_stack<stream>&               stack() noexcept { return stack_; }
    [[nodiscard]] bump_stack<stream> const&         stack() const noexcept { return stack_; }
    [[nodiscard]] stream_timelines<Platform> const& timelines() const noexcept {
        return timelines_;
    }

private:
    using use      = typename chunk::use;
    using user     = typename chunk::user;
    using timeline = typename stream_timelines<Platform>::timeline;

    /// Returns when the stream of `mine` (null: the host) may use the memory of the chunk from the
    /// top (bump pointer) to `until`, and stores in `costly` the use that decides it.
    [[nodiscard]] availability price_of(chunk const& c, std::uintptr_t until, timeline const* mine,
                                        bool captured, tags& costly) const noexcept {
        auto worst = availability::ready;
        for (tag const& t : c.waits()) {
            auto const one = timelines_.of(t.slot, t.epoch, mine, captured);
            if (t.begin >= until || one <= worst) { continue; }
            worst  = one;
            costly = tags{t};
        }
        return worst;
    }
    /// Makes memory that the captured stream may use unavailable, because the stream cannot be
    /// waited for. If captures are tracked, the memory is unavailable until the capture ends.
    /// Otherwise it may belong to the graph and is retained until captures are forgotten.
    void exclude_or_retain(timeline const& captured) noexcept {
        if (eager_ || graphs_) { return timelines_.exclude(captured.slot()); }
        for (chunk& each : stack_.chunks()) {
            each.keep_for_capture(captured.slot(), captured.covered() + 1);
        }
    }
    void* hand_out(chunk& c, std::uintptr_t start, request const& r, timeline* mine,
                   bool in_graph) noexcept {
        if (mine != nullptr) {
            if (in_graph) { (void)mine->epoch_of_captured_free(); }
            user const by{*r.on, mine->id(), mine->slot()};
            c.take(start, r.bytes, &by, in_graph);
        } else {
            c.take(start, r.bytes, nullptr, false);
        }
        stack_.live_at_top() += r.bytes;
        return reinterpret_cast<void*>(start);
    }

    /// Records that the stream `on` uses [begin, end) of the chunk, also for its graph if it is
    /// being captured. If that fails, reports the error and waits for the stream. If the wait fails
    /// as well, reports a leak and returns false.
    bool record_use(chunk& c, std::uintptr_t begin, std::uintptr_t end, stream on) noexcept {
        try {
            timeline&  its = timelines_.of(on);
            user const by{on, its.id(), its.slot()};
            if (c.find_use(by.id, chunk::running) == nullptr) { c.reserve(); }
            bool const captured = graphs_ && Platform::capturing(on);
            (void)c.add_use(begin, end, by,
                            captured ? its.epoch_of_captured_free() : chunk::running);
            return true;
        } catch (...) { return waits_instead(on, reinterpret_cast<void*>(begin), end - begin); }
    }
    /// Records that the stream `on` may still access all memory that is about to be unwound
    /// (freed). Returns false if that can be neither recorded nor waited for.
    bool record_unwind(std::uint64_t serial, stream on) noexcept {
        try {
            timeline& its = timelines_.of(on);
            stack_.each_since(serial, [](chunk& c, std::uintptr_t) { c.reserve_waits(); });
            tag const t = used_by(its);
            stack_.each_since(serial, [&](chunk& c, std::uintptr_t to) {
                if (to != c.top()) { c.wait_for({to, c.top(), t.epoch, t.slot}); }
            });
            return true;
        } catch (...) { return waits_instead(on, nullptr, 0); }
    }
    /// Called in a `catch` block after recording the use by the stream `on` has failed: reports
    /// that, and waits for the stream. Returns false if the wait fails as well.
    [[gnu::cold]] bool waits_instead(stream on, void* p, std::size_t bytes) noexcept {
        report_caught({.kind     = error_kind::platform_error,
                       .pointer  = p,
                       .bytes    = bytes,
                       .resource = "monotonic",
                       .call     = "recording the stream of a free"});
        if (timelines_.wait_for_user(on)) { return true; }
        report_error({.kind     = error_kind::leak,
                      .pointer  = p,
                      .bytes    = bytes,
                      .resource = "monotonic",
                      .cause    = "its stream could be neither recorded nor waited for"});
        return false;
    }

    /// Returns the use of memory by all work that the stream has now, without addresses. The stream
    /// may belong to another thread.
    [[nodiscard]] tag used_by(timeline& its) {
        bool const captured = (eager_ || graphs_) && its.captured();
        return {0, 0, captured ? its.epoch_of_captured_free() : its.epoch_of_free(), its.slot()};
    }
    /// Returns the pending use (by a stream) of blocks that are unwound. Its epoch (part of the
    /// stream's work) is 0 if no stream may still use them.
    [[nodiscard]] tag pending(use const& u) noexcept {
        if (u.part.epoch != chunk::running) { return u.part; }
        timeline& its = timelines_.by_id(u.by.id);
        try {
            if (its.id() == u.by.id) { return used_by(its); }
            // The timeline (record) of a stream that was not retired serves another stream. An
            // event on the stream could not be told from one of a new stream with the same handle.
            bool const there =
                standing_of<Platform>(u.by.stream, u.by.id) == stream_standing::there;
            bool const waits = !there || !Platform::capturing(u.by.stream);
            if (waits && timelines_.wait_for_devices()) { return {}; }
        } catch (...) { report_error({.kind = error_kind::platform_error}); }
        // The stream of the graph is unknown, so the memory is kept for ever.
        return {0, 0, its.epoch_of_captured_free(), its.slot()};
    }
    /// For each stream that was destroyed since the last call: records that the work that it had is
    /// the last that may use its blocks.
    void forget_ended() noexcept {
        timelines_.forget_ended(
            [this](timeline& its) { end_uses(its.id(), {0, 0, its.epoch_of_free(), its.slot()}); });
    }
    void end_uses(std::uint64_t id, tag const& last) noexcept {
        for (chunk& c : stack_.chunks()) { c.end_use(id, last); }
    }
    bool                       eager_;
    bool                       graphs_;
    stream_timelines<Platform> timelines_;
    bump_stack<stream>         stack_;
};

} // namespace detail
} // namespace vram
