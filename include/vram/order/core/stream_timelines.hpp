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
/// the destruction.
///
/// Failure   Throws `std::bad_alloc` and errors of the platform, unless a function is `noexcept`.
/// Threads   One thread at a time. While the host waits, `guard` (the resource's lock) is unlocked.
template <class Platform>
class stream_timelines {
public:
    using stream   = typename Platform::stream;
    using timeline = stream_timeline<Platform>;
    using identity = typename timeline::identity;

    /// `by_name`: true to find streams by their handles, false to find them by their ids.
    /// `visits_ends`: true if the caller handles destroyed streams with `forget_ended(visit)`,
    /// false if `readmit` handles them. `most_events`: largest number of events of one stream.
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

    /// `of` returns the timeline (record of progress) of a stream, and creates it if necessary.
    /// `known` searches only a small cache of recently used timelines, and may return null.
    /// `of_another` is for a stream that another thread may be capturing now.
    [[nodiscard, gnu::always_inline]] timeline& of(stream s) { return table_.of(s); }
    [[nodiscard, gnu::always_inline]] timeline* known(stream s) { return table_.known(s); }
    [[nodiscard]] timeline*   of_another(stream s) { return table_.of_another(s); }
    [[nodiscard]] timeline&   by_id(std::uint64_t id) noexcept { return table_.by_id(id); }
    [[nodiscard]] std::size_t size() const noexcept { return table_.size(); }

    [[nodiscard]] bool is_complete(tag const& t) const noexcept {
        return table_[t.slot].done(t.epoch);
    }

    /// Returns true if the part `epoch` of the work of the stream with the index `slot` is complete
    /// or has an event behind it.
    [[nodiscard]] bool has_event(std::size_t slot, std::uint64_t epoch) const noexcept {
        return table_[slot].has_event(epoch);
    }

    /// Tells if free memory may be used now, after a wait, or not at all. The stream with the index
    /// `slot` may access the memory until it has completed the part `epoch` of its work. `asker`:
    /// timeline of the stream that needs the memory, or null for the host. `captured`: true if that
    /// stream is being captured.
    [[nodiscard]] availability of(std::size_t slot, std::uint64_t epoch, timeline const* asker,
                                  bool captured) const noexcept {
        bool const own  = asker != nullptr && slot == asker->slot();
        bool const kept = epoch == tag::captured;
        // A stream needs no wait for memory that it freed itself. This holds only if the free and
        // this request are both part of captures, or both not.
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
    /// A function object. For free memory, it returns if the stream of `asker` may use the memory
    /// now, after a wait, or not at all.
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

    /// Until the next call of `readmit`, other streams may not use memory that the stream with the
    /// index `slot` has freed and that no event covers.
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
    /// records an event behind the frees on the stream, and gives up the stream's handle. An error
    /// is reported, and the handle of that stream is kept.
    template <class Visit>
    void forget_ended(Visit const& visit) noexcept {
        if constexpr (announces_ends<Platform>) {
            if (ends_seen_ != Platform::ends()) { forget_ended_now(visit); }
        }
    }

    void forget_ended() noexcept {
        forget_ended([](timeline&) {});
    }

    /// Makes the stream of `asker` wait for all pending uses in `held` (streams that may still
    /// access freed memory). No use may be by a captured graph. Returns null on success. If a
    /// stream cannot be waited for because it is being captured, stops and returns its timeline.
    [[nodiscard]] timeline const* order(timeline& asker, tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (&other == &asker || asker.waited(t.slot) >= t.epoch || other.done(t.epoch)) {
                continue;
            }
            if (!ensure_event(other, t.epoch)) { return &other; }
            other.poll(); // queries the events: perhaps no wait is needed
            // If `poll` has discarded the event, another event must be recorded.
            if (!ensure_event(other, t.epoch)) { return &other; }
            if (!other.done(t.epoch)) { asker.wait_for(other, t.epoch); }
        }
        return nullptr;
    }

    /// Tries to record an event behind each pending use in `held` (a stream that may still access
    /// freed memory) that has no event. Never makes the host wait.
    void try_record_events(tags const& held) noexcept {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (t.epoch != tag::captured && !other.has_event(t.epoch)) { other.try_record_event(); }
        }
    }

    /// Finds out which pending uses in `held` (streams that may still access freed memory) are
    /// complete. Tries to record an event behind each use that has none. Never waits.
    void ask(tags const& held) {
        for (tag const& t : held) {
            timeline& other = table_[t.slot];
            if (t.epoch == tag::captured || other.done(t.epoch)) { continue; }
            if (!other.has_event(t.epoch)) { other.try_record_event(); }
            other.poll();
        }
    }
    /// Returns the timeline of the first stream in `held` (pending uses of freed memory) that is
    /// being captured and has no event behind its use. Returns null if there is none.
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
    /// Tries, without a wait, to record an event on each stream that has freed memory since its
    /// last event. Does nothing if there is only one stream.
    void try_record_all() noexcept {
        if (!several()) { return; }
        for (timeline* each : table_) { each->try_record_event(); }
    }

    /// Makes the host wait, with the lock `guard` unlocked, for all pending uses in `held` (streams
    /// that may still access freed memory). Returns null on success. If a capture or a captured
    /// graph prevents the wait for a stream, stops and returns its timeline.
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

    /// Makes the host wait, with the lock `guard` unlocked, until no stream uses freed memory. Does
    /// not wait for captured graphs. Returns false if a capture prevents the wait for a stream.
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

    /// Queries the recorded events of every stream, to find out which work is complete.
    void poll() {
        for (timeline* each : table_) { each->poll(); }
    }

    /// Called before the stream `s` is destroyed. Records an event behind the frees on `s`, or
    /// waits for them. Does neither if `s` is being captured. Then forgets the stream's handle.
    void retire(stream s) {
        timeline* const gone = table_.met(s);
        if (gone != nullptr) { retire(*gone); }
    }
    /// Tries, without a wait, to record an event behind the frees on a stream, and returns the
    /// result. Reports a stream that was destroyed without `retire`. `bytes`: size of the freed
    /// memory, for the report.
    recorded cover(timeline& its, std::size_t bytes) noexcept {
        recorded const how = its.try_record_event();
        if (how == recorded::lost && its.alive()) {
            its.report_death(bytes);
            table_.forget(its);
        }
        return how;
    }
    /// Called before the stream `s` is destroyed. Tries to record an event behind the frees on `s`,
    /// without a wait. On success, forgets the stream's handle; otherwise a later call may succeed.
    void try_retire(stream s) {
        timeline* const gone = table_.met(s);
        if (gone == nullptr) { return; }
        bool queried = true;
        try {
            gone->poll();
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
    /// Called when no captured graph will be launched again. Makes the host wait, with the lock
    /// `guard` unlocked, until the graphs have finished. Returns the number of waits.
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

    /// Makes the host wait until no stream or graph uses freed memory. Waits for whole devices if
    /// it is not enough to wait for single streams. Errors are reported.
    template <class Guard>
    void wait_for_all(Guard& guard) noexcept {
        bool all = false;
        try {
            all = finish_all(guard);
        } catch (...) { report_failed_call("the wait for a stream"); }
        if (!all || has_graph_memory()) { wait_for_devices(); }
    }
    /// Makes the host wait for the devices of all streams with a timeline. Returns true on success.
    bool wait_for_devices() noexcept {
        bool all = true;
        table_.for_each_device(
            [&](timeline& its) { all = try_wait<Platform>(its.device()) && all; });
        return all;
    }
    /// Makes the host wait for the stream `s`. If that fails, waits for the device of `s`. If this
    /// device is unknown, waits for all known devices. Returns true if memory that `s` used may be
    /// freed. Returns false, without a wait, if `s` is being captured.
    [[nodiscard]] bool wait_for_user(stream s) noexcept {
        if (is_ending<Platform>()) { return true; }
        if (captures<Platform>(s)) { return false; }
        try {
            return try_wait<Platform>(s) || try_wait<Platform>(Platform::device_of(s));
        } catch (...) { report_failed_call("the query of a stream's device"); }
        return wait_for_all_devices();
    }
    /// Makes the host wait for the devices of all streams with a timeline (record of progress), and
    /// for the current device. Returns true if all waits succeeded.
    bool wait_for_all_devices() noexcept {
        auto const here = [] { await_device<Platform>(Platform::current_device()); };
        bool const all  = wait_for_devices();
        return try_wait<Platform>(here, "the wait for a device") && all;
    }

private:
    void retire(timeline& gone) {
        gone.poll();
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

    /// Makes sure that the part `epoch` of the stream's work is complete or has an event behind it.
    /// Returns false if a capture of the stream prevents this.
    [[nodiscard]] bool ensure_event(timeline& its, std::uint64_t epoch) {
        bool const lived   = its.alive();
        bool const covered = its.ensure_event(epoch);
        // If the call found the stream destroyed, forgets its handle, which a new stream may get.
        if (lived && !its.alive()) { table_.forget(its); }
        return covered;
    }

    template <class Guard>
    static void finish(timeline& other, std::uint64_t epoch, Guard& guard) {
        auto&               e     = other.event_for(epoch);
        std::uint64_t const until = e.epoch;
        struct pin { // while a `pin` exists, the event `e` is not recorded again
            unsigned& count;
            ~pin() { --count; }
        };
        pin const kept{++e.pins};
        unlocked(guard, [&] { Platform::synchronize(e.what); });
        other.complete_up_to(until);
        other.count_host_wait();
    }

    timeline_table<Platform> table_;
    /// True if `exclude` was called since the last call of `readmit`.
    bool some_excluded_ = false;
    /// Number of destroyed streams, `Platform::ends()`, at the last call of `forget_ended`.
    std::uint64_t ends_seen_ = 0;
};

} // namespace detail
} // namespace vram
