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

/// The timelines (records of the progress) of all streams of a resource. A slot is the index of a
/// timeline. `retire` must be called before a stream is destroyed, unless the platform announces
/// that.
///
/// Failure   Throws `std::bad_alloc` and errors of the platform, unless a function is `noexcept`.
/// Threads   One thread at a time. While the host waits, `guard` (the resource's lock) is unlocked.
template <class Platform>
class stream_timelines {
public:
    using stream   = typename Platform::stream;
    using timeline = stream_timeline<Platform>;
    using identity = typename timeline::identity;

    /// `by_name`: finds streams by handle instead of id. `visits_ends`: the caller calls
    /// `forget_ended(visit)`; otherwise `readmit` forgets destroyed streams. `most_events`: largest
    /// number of events of one stream.
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

    /// `of` finds or creates the timeline of a stream; `known` returns null if it was not used
    /// lately; `of_another` is for a stream that another thread may capture.
    [[nodiscard, gnu::always_inline]] timeline& of(stream s) { return table_.of(s); }
    [[nodiscard, gnu::always_inline]] timeline* known(stream s) { return table_.known(s); }
    [[nodiscard]] timeline*   of_another(stream s) { return table_.of_another(s); }
    [[nodiscard]] timeline&   by_id(std::uint64_t id) noexcept { return table_.by_id(id); }
    [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }

    [[nodiscard]] bool is_complete(tag const& t) const noexcept {
        return table_[t.slot].done(t.epoch);
    }

    /// Returns true if the epoch `epoch` (part of the work) of the stream with the index `slot` is
    /// complete or has an event.
    [[nodiscard]] bool has_event(std::size_t slot, std::uint64_t epoch) const noexcept {
        return table_[slot].has_event(epoch);
    }

    /// Tells if the stream of `asker` (null: the host) may use memory now that the stream `slot`
    /// may access until the end of `epoch`. `captured`: `asker`'s stream is being captured.
    [[nodiscard]] availability of(std::size_t slot, std::uint64_t epoch, timeline const* asker,
                                  bool captured) const noexcept {
        bool const own  = asker != nullptr && slot == asker->slot();
        bool const kept = epoch == tag::captured;
        // A stream may use at once what it freed itself: in a capture, memory freed in captures
        // (`kept`); outside of captures, all other memory.
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
    /// Rates free memory in a search: tells if the asking stream may use memory with given pending
    /// uses now, after a wait, or not at all.
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

    /// Makes the memory that the stream with the index `slot` has freed since its last event
    /// unavailable to other streams until the next request calls `readmit`.
    void exclude(std::size_t slot) noexcept {
        table_[slot].exclude();
        some_excluded_ = true;
    }
    void readmit() noexcept {
        if (!table_.visits_ends()) { forget_ended(); }
        if (!std::exchange(some_excluded_, false)) { return; }
        for (timeline* each : table_) { each->readmit(); }
    }
    /// For each stream that the platform has announced as destroyed: calls `visit(timeline)`,
    /// records an event behind its frees, and gives up its handle. On an error, reports it and
    /// keeps the handle.
    template <class Visit>
    void forget_ended(Visit const& visit) noexcept {
        if constexpr (announces_ends<Platform>) {
            if (ends_seen_ != Platform::ends()) { forget_ended_now(visit); }
        }
    }

    void forget_ended() noexcept {
        forget_ended([](timeline&) {});
    }

    /// Makes the stream of `asker` wait for the streams in `held`. No use in `held` may be kept for
    /// a captured graph. Returns null, or the first of these streams that is being captured.
    [[nodiscard]] timeline const* order(timeline& asker, tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (&other == &asker || asker.waited(t.slot) >= t.epoch || other.done(t.epoch)) {
                continue;
            }
            if (!ensure_event(other, t.epoch)) { return &other; }
            other.poll(); // finds out if that work is complete by now: then no wait is needed
            // `poll` discards an event that a graph contains: this call then records another one.
            if (!ensure_event(other, t.epoch)) { return &other; }
            if (!other.done(t.epoch)) { asker.wait_for(other, t.epoch); }
        }
        return nullptr;
    }

    /// Tries to record an event behind each use in `held` that has none. Never makes the host wait.
    void try_record_events(tags const& held) noexcept {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (t.epoch != tag::captured && !other.has_event(t.epoch)) { other.try_record_event(); }
        }
    }

    /// Updates the timelines of the streams in `held`: records missing events, if possible without
    /// a wait, and queries which work is complete.
    void ask(tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (t.epoch == tag::captured || other.done(t.epoch)) { continue; }
            if (!other.has_event(t.epoch)) { other.try_record_event(); }
            other.poll();
        }
    }
    /// Returns the first stream in `held` that is being captured and has no event behind its use of
    /// the memory, or null.
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
    /// If there are several streams: records an event on each that has freed memory since its last
    /// event, if possible without a wait.
    void try_record_all() noexcept {
        // Outside of captures, a single stream can reuse its own freed memory without an event.
        if (!several()) { return; }
        for (timeline* each : table_) { each->try_record_event(); }
    }

    /// Makes the host wait, with `guard` unlocked, for the streams in `held`. Returns null, or a
    /// stream for which a capture or a captured graph prevents that.
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

    /// Makes the host wait, with `guard` unlocked, for all uses of freed memory except those by
    /// captured graphs. Returns false if a running capture prevents that.
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
    /// known to be complete.
    void poll() {
        for (timeline* each : table_) { each->poll(); }
    }

    /// Called before a stream is destroyed. Makes sure that an event or a wait of the host covers
    /// its frees, unless it is being captured, and forgets its handle.
    void retire(stream s) {
        timeline* const gone = table_.met(s);
        if (gone != nullptr) { retire(*gone); }
    }
    /// Tries without a wait to record an event behind the frees on a stream, and returns the
    /// result. `bytes`: the waiting memory, for the report if the stream was destroyed without
    /// `retire`.
    recorded cover(timeline& its, std::size_t bytes) noexcept {
        recorded const how = its.try_record_event();
        if (how == recorded::lost && its.alive()) {
            its.report_death(bytes);
            table_.forget(its);
        }
        return how;
    }
    /// Called before a stream is destroyed. Tries without a wait to record an event behind its
    /// frees: on success forgets the handle, otherwise keeps it for another attempt.
    void try_retire(stream s) {
        timeline* const gone = table_.met(s);
        if (gone == nullptr) { return; }
        bool queried = true;
        try {
            gone->poll(); // queries events; one that a captured graph contains is recorded again
        } catch (...) { queried = false; }
        // If no event was recorded, or the query failed, keeps the handle for a later attempt.
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
    /// Called when no captured graph will be launched again. Makes the host wait, with `guard`
    /// unlocked, until none is running. Returns the number of waits.
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
    /// Returns true if a captured graph may use freed memory: some stream was found being captured,
    /// and `finish_graphs` has not completed since.
    [[nodiscard]] bool has_graph_memory() const noexcept {
        bool some = false;
        for (timeline const* each : table_) { some = some || each->has_graph_memory(); }
        return some;
    }

    /// Makes the host wait until no stream uses freed memory, if necessary for whole devices.
    /// Errors are reported.
    template <class Guard>
    void wait_for_all(Guard& guard) noexcept {
        bool all = false;
        try {
            all = finish_all(guard);
        } catch (...) { report_failed_call("the wait for a stream"); }
        if (!all || has_graph_memory()) { wait_for_devices(); }
    }
    /// Makes the host wait for the device of every stream that has a timeline. Returns true if all
    /// waits succeeded.
    bool wait_for_devices() noexcept {
        bool all = true;
        table_.for_each_device(
            [&](timeline& its) { all = try_wait<Platform>(its.device()) && all; });
        return all;
    }
    /// Makes the host wait for `s` or, after an error, for whole devices, so that memory can be
    /// freed. Returns false if that fails or `s` is being captured.
    [[nodiscard]] bool wait_for_user(stream s) noexcept {
        if (is_ending<Platform>()) { return true; }
        if (captures<Platform>(s)) { return false; }
        try {
            return try_wait<Platform>(s) || try_wait<Platform>(Platform::device_of(s));
        } catch (...) { report_failed_call("the query of a stream's device"); }
        return wait_for_all_devices();
    }
    /// Makes the host wait for the devices of all streams with a timeline, and for the current
    /// device. Returns true if all waits succeeded.
    bool wait_for_all_devices() noexcept {
        auto const here = [] { await_device<Platform>(Platform::current_device()); };
        bool const all  = wait_for_devices();
        return try_wait<Platform>(here) && all;
    }

private:
    void retire(timeline& gone) {
        gone.poll(); // queries events; one that a captured graph contains is recorded again
        // A captured graph may still be running on the stream: its work so far counts as a free, so
        // that an event is recorded behind it.
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

    /// Makes sure that `epoch`, a part of the stream's work, is complete or has an event. Returns
    /// false if a capture prevents it.
    [[nodiscard]] bool ensure_event(timeline& its, std::uint64_t epoch) {
        bool const lived   = its.alive();
        bool const covered = its.ensure_event(epoch);
        // This call found the stream destroyed: forgets its handle, which a new stream may get.
        if (lived && !its.alive()) { table_.forget(its); }
        return covered;
    }

    template <class Guard>
    static void finish(timeline& other, std::uint64_t epoch, Guard& guard) {
        auto&               e     = other.event_for(epoch);
        std::uint64_t const until = e.epoch;
        struct pin { // keeps the event from being recorded again while the host waits
            unsigned& count;
            ~pin() { --count; }
        };
        pin const kept{++e.pins};
        unlocked(guard, [&] { Platform::synchronize(e.what); });
        other.complete_up_to(until);
        other.count_host_wait();
    }

    timeline_table<Platform> table_;
    /// True if some stream was excluded (what it freed during a capture is unavailable to other
    /// streams) and `readmit` was not called since.
    bool some_excluded_ = false;
    /// `Platform::ends()`, the number of destroyed streams, at the last call of `forget_ended`
    std::uint64_t ends_seen_ = 0;
};

} // namespace detail
} // namespace vram
