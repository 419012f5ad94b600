// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `bump_uses` are the chunks of a `monotonic`, and which streams may still use their memory.

#include <vram/base/core/report_caught.hpp>
#include <vram/base/error.hpp>                    // report_error
#include <vram/concepts/core/stream_standing.hpp> // standing_of
#include <vram/order/core/availability.hpp>
#include <vram/order/core/stream_timelines.hpp>
#include <vram/pool/core/bump_chunk.hpp>
#include <vram/pool/core/bump_stack.hpp>
#include <vram/pool/event_policy.hpp>

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// The chunks of a `monotonic`, and the streams that may still use the memory of each chunk. A
/// `monotonic` frees memory only by a return to an earlier position.
///
/// Failure   Functions that are not `noexcept` throw `std::bad_alloc` or errors of the platform,
///           and then change nothing.
/// Threads   One thread at a time, which holds the lock of the `monotonic`.
/// Cost      Linear in the number of chunks and in the number of streams that use them.
template <class Platform>
class bump_uses {
public:
    using stream         = typename Platform::stream;
    using chunk          = bump_chunk<stream>;
    using use            = typename chunk::use;
    using user           = typename chunk::user;
    using timelines_type = stream_timelines<Platform>;
    using timeline       = typename timelines_type::timeline;

    bump_uses(event_policy events, bool graphs) noexcept
        : eager_{events == event_policy::eager},
          graphs_{graphs},
          timelines_{events == event_policy::lazy, true} {}

    /// Returns true with `event_policy::eager`: each return to a mark at once records events on the
    /// streams that may still use the freed memory. Otherwise, an event is recorded only when
    /// another stream needs the memory.
    [[nodiscard]] bool eager() const noexcept { return eager_; }
    /// Returns true if the stream `s` is being captured and `pool_options::graphs` is set.
    [[nodiscard]] bool in_graph(stream s) const { return graphs_ && Platform::capturing(s); }
    [[nodiscard]] bump_stack<stream>&       stack() noexcept { return stack_; }
    [[nodiscard]] bump_stack<stream> const& stack() const noexcept { return stack_; }
    [[nodiscard]] timelines_type&           timelines() noexcept { return timelines_; }
    [[nodiscard]] timelines_type const&     timelines() const noexcept { return timelines_; }

    /// Returns when the stream of `mine` (null: the host) may use the free memory of `c` below the
    /// address `until`: now, after a wait, or never. If the result is not `ready`, stores in
    /// `costly` the pending use that is the reason.
    [[nodiscard]] availability price_of(chunk const& c, std::uintptr_t until, timeline const* mine,
                                        bool captured, tags& costly) const noexcept {
        auto worst = availability::ready;
        for (tag const& t : c.waits()) {
            auto const one = t.slot != no_timeline ? timelines_.of(t.slot, t.epoch, mine, captured)
                                                   : availability::unavailable;
            if (t.begin >= until || one <= worst) { continue; }
            worst  = one;
            costly = tags{t};
        }
        return worst;
    }
    /// Called if a wait fails because the stream of `captured` is being captured. Makes the memory
    /// that this stream has freed since its last event unavailable to other streams. With `eager_`
    /// or `graphs_`, this lasts until the next request, and otherwise until `forget_captures`.
    void exclude_or_retain(timeline const& captured) noexcept {
        if (eager_ || graphs_) { return timelines_.exclude(captured.slot()); }
        for (chunk& each : stack_.chunks()) {
            each.keep_for_capture(captured.slot(), captured.covered() + 1);
        }
    }

    /// Records that the stream `on` may still use the addresses [begin, end) of the chunk `c`. If
    /// the record fails, waits for the stream. If the wait also fails, reports a leak and returns
    /// false.
    bool record_use(chunk& c, std::uintptr_t begin, std::uintptr_t end, stream on) noexcept {
        try {
            timeline&  its = timelines_.of(on);
            user const by{on, its.id(), its.slot()};
            if (c.find_use(by.id, chunk::running) == nullptr) { c.reserve(); }
            bool const captured = in_graph(on);
            (void)c.add_use(begin, end, by,
                            captured ? its.epoch_of_captured_free() : chunk::running);
            return true;
        } catch (...) { return waits_instead(on, reinterpret_cast<void*>(begin), end - begin); }
    }
    /// Called before the memory above the mark `serial` is freed. Records that the stream `on` may
    /// still use this memory. If the record fails, waits for the stream. If the wait also fails,
    /// reports a leak and returns false.
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
    /// Records events on the streams that may still use free memory of the chunk, if their work has
    /// no event yet. Never waits. Skips a stream if recording fails.
    void record_events(chunk const& c) noexcept {
        for (tag const& t : c.waits()) {
            if (t.epoch != tag::captured) { timelines_.try_record_events(tags{t}); }
        }
    }
    [[nodiscard]] bool is_complete(tag const& t) const noexcept {
        return t.epoch != tag::captured && timelines_.is_complete(t);
    }
    /// Called when blocks are freed that a stream has used, as the record `u` tells. Returns the
    /// work for which the next user of the memory must wait: the index of the stream (`slot`) and a
    /// part of its work (`epoch`). If `epoch` is 0, no wait is needed.
    [[nodiscard]] tag unwound(use const& u) noexcept {
        if (u.part.epoch != chunk::running) { return u.part; }
        timeline& its = timelines_.by_id(u.by.id);
        try {
            if (its.id() == u.by.id) { return used_by(its); }
            // There is no record of this stream's progress any more. So the host waits for the
            // devices, unless the stream still exists and is being captured.
            bool const there =
                standing_of<Platform>(u.by.stream, u.by.id) == stream_standing::there;
            bool const waits = !there || !Platform::capturing(u.by.stream);
            if (waits && timelines_.wait_for_devices()) { return {}; }
        } catch (...) { report_error({.kind = error_kind::platform_error}); }
        // The end of the use is unknown, so the memory is unavailable until `forget_captures`. The
        // call of `epoch_of_captured_free` tells `forget_captures` that such memory exists.
        return {0, 0, its.epoch_of_captured_free(), no_timeline};
    }

    /// Called before the stream `s` is destroyed. Each use of memory by `s` then ends with the work
    /// that `s` has now. The stream gets no later work.
    void retire(stream s) {
        std::uint64_t const id    = Platform::id(s);
        bool                known = false;
        for (chunk& c : stack_.chunks()) {
            known = known || c.find_use(id, chunk::running) != nullptr;
        }
        tag const last = known ? used_by(timelines_.of(s)) : tag{};
        timelines_.retire(s); // if this throws, no use is ended
        if (known) { end_uses(id, last); }
    }
    template <class Guard>
    void forget_captures(Guard& held) {
        if (timelines_.finish_graphs(held) == 0) { return; }
        for (chunk& c : stack_.chunks()) {
            c.end_captures([this](std::uint64_t id) {
                timeline const& its = timelines_.by_id(id);
                return its.id() == id && its.alive();
            });
        }
    }
    /// Updates the uses of memory by streams that the platform has announced as destroyed. Each
    /// such use now ends with the last work of its stream.
    void forget_ended() noexcept {
        timelines_.forget_ended(
            [this](timeline& its) { end_uses(its.id(), {0, 0, its.epoch_of_free(), its.slot()}); });
    }

    /// Returns an upper bound of the number of free bytes that streams may still use. In each
    /// chunk, counts one range that contains all such bytes.
    [[nodiscard]] std::size_t pending() const noexcept {
        std::size_t sum = 0;
        for (chunk const& c : stack_.chunks()) {
            std::uintptr_t until = c.top();
            std::uintptr_t from  = c.end();
            for (tag const& t : c.waits()) {
                if (is_complete(t)) { continue; }
                from  = t.begin < from ? t.begin : from;
                until = t.end > until ? t.end : until;
            }
            sum += from < until ? until - from : 0;
        }
        return sum;
    }

private:
    /// Value of `tag::slot` if the stream that may still use the memory has no timeline (record of
    /// its progress). The memory is unavailable until `forget_captures`.
    static constexpr std::size_t no_timeline = ~std::size_t{0};

    /// Called in a `catch` block, when a use by the stream `on` could not be recorded: reports the
    /// error, then waits for the stream. If the wait fails, reports a leak and returns false.
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

    /// Returns the record of a use of memory by the stream of `its`. The use ends when the work
    /// that the stream has now is complete. If the stream is in a tracked capture, the use ends
    /// with `forget_captures`. The addresses in the record are 0.
    [[nodiscard]] tag used_by(timeline& its) {
        bool const captured = (eager_ || graphs_) && its.captured();
        return {0, 0, captured ? its.epoch_of_captured_free() : its.epoch_of_free(), its.slot()};
    }
    void end_uses(std::uint64_t id, tag const& last) noexcept {
        for (chunk& c : stack_.chunks()) { c.end_use(id, last); }
    }

    bool               eager_;
    bool               graphs_;
    timelines_type     timelines_;
    bump_stack<stream> stack_;
};

} // namespace detail
} // namespace vram
