// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_timelines` are the timelines of all streams of a resource, and order their frees.

#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/core/unlocked.hpp>
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/stream_hold.hpp> // announces_ends
#include <vram/order/core/availability.hpp>
#include <vram/order/core/record_behind.hpp> // captures
#include <vram/order/core/tags.hpp>
#include <vram/order/core/timeline_table.hpp>
#include <vram/order/core/try_wait.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The timelines (`stream_timeline`: a record of the progress of one stream by events) of all
/// streams on which a pool or `stream_ordered` allocated or freed. Each has an index, its slot. If
/// the platform does not announce the end of a stream, the stream must be retired before its end.
///
/// Failure   For a new stream `std::bad_alloc` may be thrown. Errors of the platform are rethrown,
///           and nothing has changed. Functions that are `noexcept` report them instead.
/// Threads   One thread at a time. While the host waits for an event, the `guard` is unlocked.
/// Cost      A known stream is found in constant time.
template <class Platform>
class stream_timelines {
public:
    using stream   = typename Platform::stream;
    using timeline = stream_timeline<Platform>;
    using identity = typename timeline::identity;

    /// `by_name`: streams are found by handle, not by id. `visits_ends`: the index (slot) of a
    /// stream that the platform announced as destroyed is reused only after `forget_ended` visited
    /// the stream. `most_events`: largest number of events of a stream.
    explicit stream_timelines(bool by_name = false, bool visits_ends = false,
                              std::size_t most_events = timeline::most) noexcept
        : table_{by_name, visits_ends, most_events} {}
    stream_timelines(stream_timelines&& other) noexcept : stream_timelines{} {
        *this = std::move(other);
    }
    stream_timelines& operator=(stream_timelines&& other) noexcept {
        table_         = std::move(other.table_);
        some_excluded_ = std::exchange(other.some_excluded_, false);
        ends_seen_     = other.ends_seen_;
        return *this;
    }

    /// Return the timeline (record) of a stream: `of` creates it if needed, `known` returns null if
    /// it is not cached, `of_another` makes no query of the stream. See `timeline_table`.
    [[nodiscard, gnu::always_inline]] timeline& of(stream s) { return table_.of(s); }
    [[nodiscard, gnu::always_inline]] timeline* known(stream s) { return table_.known(s); }
    [[nodiscard]] timeline*   of_another(stream s) { return table_.of_another(s); }
    [[nodiscard]] timeline&   by_id(std::uint64_t id) noexcept { return table_.by_id(id); }
    [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }

    [[nodiscard]] bool is_complete(tag const& t) const noexcept {
        return table_[t.slot].done(t.epoch);
    }

    /// Returns true if an event was recorded behind the epoch `epoch` (part of the work) of the
    /// stream with the index `slot`, or if that epoch is complete.
    [[nodiscard]] bool has_event(std::size_t slot, std::uint64_t epoch) const noexcept {
        return table_[slot].has_event(epoch);
    }

    /// Tells if a stream may use, at once or after a wait, memory that the stream with the index
    /// `slot` may access until its epoch `epoch` (part of its work) is complete. `asker` is the
    /// asking stream; null stands for the host. `captured`: the asking stream is being captured. It
    /// may then use only memory that no stream may still access, and memory that it freed itself
    /// during a capture.
    [[nodiscard]] availability of(std::size_t slot, std::uint64_t epoch, timeline const* asker,
                                  bool captured) const noexcept {
        bool const own  = asker != nullptr && slot == asker->slot();
        bool const kept = epoch == tag::captured;
        if (own && captured == kept) { return availability::ready; }
        if (table_[slot].done(epoch)) { return availability::ready; }
        if (captured || kept || table_[slot].is_excluded(epoch)) {
            return availability::unavailable;
        }
        return asker != nullptr && asker->waited(slot) >= epoch ? availability::ready
                                                                : availability::needs_wait;
    }
    [[nodiscard]] availability of(tags const& held, timeline const* asker,
                                  bool captured) const noexcept {
        auto worst = availability::ready;
        for (tag const& t : held) {
            availability const one = of(t.slot, t.epoch, asker, captured);
            worst                  = one > worst ? one : worst;
        }
        return worst;
    }
    /// Tells if a stream may use memory with given pending uses now, after a wait, or not at all.
    struct pricing {
        stream_timelines const& all;
        timeline const*         asker;
        bool                    captured;

        [[nodiscard]] availability operator()(std::size_t   slot,
                                              std::uint64_t epoch) const noexcept {
            return all.of(slot, epoch, asker, captured);
        }
        [[nodiscard]] availability operator()(tags const& held) const noexcept {
            return all.of(held, asker, captured);
        }
    };
    [[nodiscard]] pricing for_asker(timeline const* asker, bool captured) const noexcept {
        return {*this, asker, captured};
    }

    /// Makes the memory that the captured stream with the index `slot` has freed since its last
    /// event unavailable until the next request, because the stream cannot be waited for.
    void exclude(std::size_t slot) noexcept {
        table_[slot].exclude();
        some_excluded_ = true;
    }
    void readmit() noexcept {
        if (!table_.visits_ends()) { forget_ended(); }
        if (!std::exchange(some_excluded_, false)) { return; }
        for (timeline* each : table_) { each->readmit(); }
    }
    /// For each stream whose end the platform announced since the last call: calls `visit` with its
    /// timeline (record), records an event behind its frees, because its handle is still valid, and
    /// forgets the handle. Errors are reported to the error sink.
    template <class Visit>
    void forget_ended(Visit const& visit) noexcept {
        if constexpr (announces_ends<Platform>) {
            if (ends_seen_ != Platform::ends()) { forget_ended_now(visit); }
        }
    }

    void forget_ended() noexcept {
        forget_ended([](timeline&) {});
    }

    /// Makes the stream of `asker` wait for the streams in `held`, which may still access freed
    /// memory. Returns null if that succeeded. At a stream that is being captured, stops and
    /// returns its timeline (record). No use in `held` may be kept for a captured graph.
    [[nodiscard]] timeline const* order(timeline& asker, tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (&other == &asker || asker.waited(t.slot) >= t.epoch || other.done(t.epoch)) {
                continue;
            }
            if (!ensure_event(other, t.epoch)) { return &other; }
            other.poll(); // finds out if that work is complete by now: then no wait is needed
            // `poll` may discard an event that a capture put into a graph: another is recorded.
            if (!ensure_event(other, t.epoch)) { return &other; }
            if (!other.done(t.epoch)) { asker.wait_for(other, t.epoch); }
        }
        return nullptr;
    }

    /// For each pending use in `held` without an event behind the free, tries to record one, so
    /// that a later `poll` can find the memory unused. Never makes the host wait.
    void try_record_events(tags const& held) noexcept {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (t.epoch != tag::captured && !other.has_event(t.epoch)) { other.try_record_event(); }
        }
    }

    /// Queries events to find out which streams in `held` still access the freed memory. First
    /// records an event behind the frees of a stream that has none, if that needs no wait.
    void ask(tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (t.epoch == tag::captured || other.done(t.epoch)) { continue; }
            if (!other.has_event(t.epoch)) { other.try_record_event(); }
            other.poll();
        }
    }
    /// Looks in `held`, the pending uses of some memory, for a stream that is being captured and
    /// has no event behind its free: the graph may use the memory. Returns its timeline, or null.
    [[nodiscard]] timeline const* in_capture(tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (!other.done(t.epoch) && !other.has_event(t.epoch) && other.captured()) {
                return &other;
            }
        }
        return nullptr;
    }
    [[nodiscard]] bool several() const noexcept { return table_.size() > 1; }
    /// Records an event on every stream that has freed memory since its last event, if that needs
    /// no wait. A later `poll` can then find that memory unused. Does nothing for a single stream,
    /// which may use its own freed memory without an event.
    void try_record_all() noexcept {
        if (!several()) { return; }
        for (timeline* each : table_) { each->try_record_event(); }
    }

    /// Makes the host wait for the streams in `held`, which may still access freed memory. `guard`
    /// is unlocked during a wait. Stops at a stream that is being captured, or whose memory is kept
    /// for a captured graph, and returns its timeline (record). Returns null if there is none.
    template <class Guard>
    [[nodiscard]] timeline const* finish(tags const& held, Guard& guard) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (other.done(t.epoch)) { continue; }
            if (t.epoch == tag::captured || !ensure_event(other, t.epoch)) { return &other; }
            if (!other.done(t.epoch)) { finish(other, t.epoch, guard); }
        }
        return nullptr;
    }

    /// Makes the host wait, with `guard` unlocked, until no stream uses memory freed before this
    /// call, except memory kept for captured graphs. Returns false if a stream is being captured:
    /// of its frees, only those before its last event were waited for.
    template <class Guard>
    bool finish_all(Guard& guard) {
        bool all = true;
        for (std::size_t i = 0; i < table_.size(); ++i) {
            timeline&     each  = table_[i];
            std::uint64_t epoch = each.last_epoch();
            if (each.done(epoch)) { continue; }
            if (!ensure_event(each, epoch)) {
                all   = false;
                epoch = each.covered();
            }
            if (!each.done(epoch)) { finish(each, epoch, guard); }
        }
        return all;
    }

    /// Queries the recorded events of every stream, and updates the last epoch (part of its work)
    /// that is known to be complete.
    void poll() {
        for (timeline* each : table_) { each->poll(); }
    }

    /// Called before a stream is destroyed. Records an event behind everything freed on it, and
    /// forgets its handle. The host waits only if no event can be recorded.
    void retire(stream s) {
        timeline* const gone = table_.met(s);
        if (gone != nullptr) { retire(*gone); }
    }
    /// Records an event behind the frees on a stream, if there are any since its last event. Never
    /// waits and never throws (`stream_timeline::try_record_event`). If the stream was destroyed
    /// without notice, reports that with `bytes`, the memory that waits for it, and forgets its
    /// handle.
    recorded cover(timeline& its, std::size_t bytes) noexcept {
        recorded const how = its.try_record_event();
        if (how == recorded::lost && its.alive()) {
            its.report_death(bytes);
            table_.forget(its);
        }
        return how;
    }
    /// Called before a stream is destroyed; does not wait. Records an event behind its frees and
    /// forgets its handle. If no event can be recorded now, the handle is not forgotten, and
    /// `cover` and `poll` can be called again.
    void try_retire(stream s) {
        timeline* const gone = table_.met(s);
        if (gone == nullptr) { return; }
        bool queried = true;
        try {
            gone->poll(); // queries events; records again each one that a captured graph contains
        } catch (...) { queried = false; }
        if (stands(cover(*gone, 0)) && queried) { table_.forget(*gone); }
    }

    [[nodiscard]] std::uint64_t events() const noexcept {
        std::uint64_t sum = 0;
        for (timeline const* each : table_) { sum += each->events(); }
        return sum;
    }
    [[nodiscard]] std::uint64_t waits() const noexcept {
        std::uint64_t sum = 0;
        for (timeline const* each : table_) { sum += each->waits(); }
        return sum;
    }
    /// Called when no captured graph will be launched again. If memory is kept for graphs, makes
    /// the host wait, with `guard` unlocked, for the devices of all streams, so that no launch uses
    /// the memory any more. Returns the number of waits, or 0 if no memory is kept. An error of a
    /// wait is rethrown, and the memory stays kept.
    template <class Guard>
    [[nodiscard]] std::size_t finish_graphs(Guard& guard) {
        std::size_t waits = 0;
        if (!has_graph_memory()) { return waits; }
        table_.for_each_device([&](timeline& its) {
            unlocked(guard, [where = its.device()] { await_device<Platform>(where); });
            its.count_host_wait();
            ++waits;
        });
        for (timeline* each : table_) { each->forget_captures(); }
        return waits;
    }
    /// Returns true if memory of a stream may be kept for a captured graph.
    [[nodiscard]] bool has_graph_memory() const noexcept {
        bool some = false;
        for (timeline const* each : table_) { some = some || each->has_graph_memory(); }
        return some;
    }

    /// Called at the end of a pool. Makes the host wait until no stream uses freed memory, and for
    /// whole devices if a stream cannot be waited for. Errors are reported, not thrown.
    template <class Guard>
    void wait_for_all(Guard& guard) noexcept {
        bool all = false;
        try {
            all = finish_all(guard);
        } catch (...) { report_failed_call("the wait for a stream"); }
        if (!all || has_graph_memory()) { wait_for_devices(); }
    }
    /// Makes the host wait for the device of every stream that has a record (timeline) here.
    /// Returns true if all waits succeeded.
    bool wait_for_devices() noexcept {
        bool all = true;
        table_.for_each_device(
            [&](timeline& its) { all = try_wait<Platform>(its.device()) && all; });
        return all;
    }
    /// Called if memory was freed on `s`, and no record (timeline) could be obtained for `s`. Waits
    /// for the stream, or, if that fails, for the stream's device. If the platform cannot tell the
    /// device, waits for the devices of all streams with a record and the current device. Returns
    /// false if that fails too, or if the stream is being captured, which a wait would invalidate.
    /// Returns true without a wait if the process is ending.
    [[nodiscard]] bool wait_for_user(stream s) noexcept {
        if (is_ending<Platform>()) { return true; }
        if (captures<Platform>(s)) { return false; }
        try {
            return try_wait<Platform>(s) || try_wait<Platform>(Platform::device_of(s));
        } catch (...) { report_failed_call("the query of a stream's device"); }
        return wait_for_all_devices();
    }
    /// Makes the host wait for the device of every stream with a timeline (record), and for the
    /// current device, which other streams may use. Returns true if all waits succeeded.
    bool wait_for_all_devices() noexcept {
        auto const here = [] { await_device<Platform>(Platform::current_device()); };
        bool const all  = wait_for_devices();
        return try_wait<Platform>(here) && all;
    }

private:
    void retire(timeline& gone) {
        gone.poll(); // queries events; records again each one that a captured graph contains
        // A captured graph may be running: `epoch_of_free` makes an event behind it necessary.
        if (gone.has_graph_memory()) { (void)gone.epoch_of_free(); }
        if (gone.has_frees() && gone.ensure_event(gone.last_epoch())) { gone.poll(); }
        table_.forget(gone);
    }
    template <class Visit>
    [[gnu::noinline]] void forget_ended_now(Visit const& visit) noexcept {
        // The count is read before the loop, because more streams may be destroyed during the loop.
        ends_seen_ = Platform::ends();
        for (timeline* each : table_) {
            if (!each->alive() || !each->ended()) { continue; }
            try {
                visit(*each);
                retire(*each);
            } catch (...) { // the event is recorded when a request needs the stream's memory
                report_failed_call("recording an event on a stream");
            }
        }
    }

    /// Makes sure that `epoch`, a part of the stream's work, is complete or has an event behind it.
    /// Returns false if the stream is being captured. If the stream was destroyed, waits for its
    /// device and ends its timeline (record): a new stream with this handle gets another.
    [[nodiscard]] bool ensure_event(timeline& its, std::uint64_t epoch) {
        bool const lived   = its.alive();
        bool const covered = its.ensure_event(epoch);
        if (lived && !its.alive()) { table_.forget(its); }
        return covered;
    }

    template <class Guard>
    static void finish(timeline& other, std::uint64_t epoch, Guard& guard) {
        auto&               e     = other.event_for(epoch);
        std::uint64_t const until = e.epoch;
        struct pin { // the event is not reused while the lock is released
            unsigned& count;
            ~pin() { --count; }
        };
        pin const kept{++e.pins};
        unlocked(guard, [&] { Platform::synchronize(e.what); });
        other.complete_up_to(until);
        other.count_host_wait();
    }

    timeline_table<Platform> table_;
    /// True from `exclude` to `readmit`: other streams may not use some memory of captured streams.
    bool some_excluded_ = false;
    /// `Platform::ends()`, the number of destroyed streams, at the last call of `forget_ended`
    std::uint64_t ends_seen_ = 0;
};

} // namespace detail
} // namespace vram
