// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_timelines` are the timelines of all streams of a resource: they decide which stream may
/// use which memory, and make streams wait.

#include <vram/base/core/address_map.hpp>         // address_map
#include <vram/base/core/hash_cells.hpp>          // scramble
#include <vram/base/core/report_caught.hpp>       // report_caught
#include <vram/concepts/core/await_device.hpp>    // await_device
#include <vram/concepts/core/stream_hold.hpp>     // announces_ends, hold_stream
#include <vram/concepts/core/stream_standing.hpp> // identify, recall
#include <vram/order/core/availability.hpp>       // availability
#include <vram/order/core/stream_key.hpp>         // stream_key
#include <vram/order/core/stream_timeline.hpp>    // stream_timeline
#include <vram/order/core/tags.hpp>               // tags

#include <concepts> // same_as
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <optional> // optional
#include <utility>  // exchange, move

namespace vram {
namespace detail {

/// The timelines (`stream_timeline`: a record of the progress of one stream by events) of all
/// streams that a pool or `stream_ordered` has met. Each timeline has an index, its slot. A stream
/// is identified by the platform's id, which is never reused, or, if `by_name`, by its handle, which
/// needs no driver call. A new stream may get the handle of a destroyed one. If the platform
/// announces the end of a stream, its timeline holds the stream, so that the handle stays unique;
/// other streams must be retired before they are destroyed. The slot of a stream without pending
/// uses may be reused.
///
/// Failure   `std::bad_alloc` is thrown for a stream that was not met before. Errors of the
///           platform are rethrown. Nothing has changed in either case.
/// Threads   One thread at a time.
/// Cost      A known stream is found in constant time. See `stream_timeline` for the other costs.
template <class Platform>
class stream_timelines {
public:
    using stream   = typename Platform::stream;
    using timeline = stream_timeline<Platform>;
    using identity = typename timeline::identity;

    /// `visits_ends`: the owner calls `forget_ended` and visits the timeline of each destroyed
    /// stream before the slot is reused. `most_events` is the largest number of events of a stream.
    explicit stream_timelines(bool by_name = false, bool visits_ends = false,
                              std::size_t most_events = timeline::most) noexcept
        : by_name_{by_name}, visits_ends_{visits_ends}, most_events_{most_events} {}
    stream_timelines(stream_timelines&& other) noexcept {
        *this = static_cast<stream_timelines&&>(other);
    }
    stream_timelines& operator=(stream_timelines&& other) noexcept {
        if (this == &other) { return *this; }
        drop();
        slots_         = std::move(other.slots_);
        by_key_        = std::move(other.by_key_);
        by_name_       = other.by_name_;
        visits_ends_   = other.visits_ends_;
        most_events_   = other.most_events_;
        recent_        = other.recent_;
        reuse_from_    = std::exchange(other.reuse_from_, 16);
        some_excluded_ = std::exchange(other.some_excluded_, false);
        ends_seen_     = other.ends_seen_;
        recent_key_    = std::exchange(other.recent_key_, 0);
        for (std::size_t i = 0; i < seats; ++i) { seats_[i] = std::exchange(other.seats_[i], {}); }
        return *this;
    }
    ~stream_timelines() { drop(); }

    // `of` and `known` are inlined, because every call of a pool begins with one of them. In a
    // program with many pools the compiler would not inline them.

    /// Returns the timeline of a stream, and creates it if the stream was not met before.
    [[nodiscard, gnu::always_inline]] timeline& of(stream s) {
        std::uint64_t const key = key_of(s);
        return recent_key_ == key ? *recent_ : find(s, key);
    }

    /// Returns the timeline of a stream if it is one of the last used, else null.
    [[nodiscard, gnu::always_inline]] timeline* known(stream s) {
        std::uint64_t const key = key_of(s);
        if (recent_key_ != key) [[unlikely]] { return known_before(key); }
        // Lets the compiler drop a null check in the caller.
        if (recent_ == nullptr) { __builtin_unreachable(); }
        return recent_;
    }

    [[nodiscard]] bool is_complete(tag const& t) const noexcept {
        return slots_[t.slot]->done(t.epoch);
    }

    /// Returns the timeline of a stream that another thread may use, and capture, during the call.
    /// Returns null if the stream was not met before and its id was never queried. Does not query
    /// the stream.
    [[nodiscard]] timeline* of_another(stream s) {
        std::optional<identity> const who = recall<Platform>(s);
        if (!who) { return nullptr; }
        std::uint64_t const key   = by_name_ ? stream_key<Platform>::named_of(s, who->id)
                                             : stream_key<Platform>::lasting_of(who->id);
        timeline* const     found = by_key_.find(key);
        return found != nullptr ? found : &meet(s, key, *who);
    }

    /// Returns true if an event was recorded behind everything freed on the stream in that epoch,
    /// or if it is complete.
    [[nodiscard]] bool has_event(std::size_t slot, std::uint64_t epoch) const noexcept {
        return slots_[slot]->has_event(epoch);
    }

    /// Returns when `asker` (null: the host, without a wait) may use memory with a pending use by
    /// the stream in `slot` until `epoch`. `captured`: the asking stream is being captured. It may
    /// then use only memory that its own capture freed, and memory without pending uses.
    [[nodiscard]] availability of(std::size_t slot, std::uint64_t epoch, timeline const* asker,
                                  bool captured) const noexcept {
        bool const own  = asker != nullptr && slot == asker->slot();
        bool const kept = epoch == tag::captured;
        if (own && captured == kept) { return availability::ready; }
        if (slots_[slot]->done(epoch)) { return availability::ready; }
        if (captured || kept || slots_[slot]->is_excluded(epoch)) {
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
    /// The function object that rates pending uses for one stream that asks.
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

    /// Makes the memory that the stream in `slot` has freed since its last event unavailable until
    /// `readmit`, because the stream is being captured and cannot be waited for.
    void exclude(std::size_t slot) noexcept {
        slots_[slot]->exclude();
        some_excluded_ = true;
    }
    void readmit() noexcept {
        if (!visits_ends_) { forget_ended(); }
        if (!std::exchange(some_excluded_, false)) { return; }
        for (timeline* each : slots_) { each->readmit(); }
    }
    /// Calls `visit(timeline)` for each stream that was announced as destroyed since the last call,
    /// then records an event for it and retires it. Cost: one comparison if there is none.
    template <class Visit>
    void forget_ended(Visit const& visit) noexcept {
        if constexpr (announces_ends<Platform>) {
            if (ends_seen_ != Platform::ends()) { forget_ended_now(visit); }
        }
    }

    void forget_ended() noexcept {
        forget_ended([](timeline&) {});
    }

    /// Makes the stream of `asker` wait for all incomplete uses in `held`. Returns null, or the
    /// timeline of a stream that cannot be waited for because it is being captured.
    [[nodiscard]] timeline const* order(timeline& asker, tags const& held) {
        for (tag const& t : held) {
            timeline& other = *slots_[t.slot];
            if (&other == &asker || asker.waited(t.slot) >= t.epoch || other.done(t.epoch)) {
                continue;
            }
            if (!ensure_event(other, t.epoch)) { return &other; }
            other.poll(); // a use that is complete by now needs no dependency between streams
            if (!other.done(t.epoch)) { asker.wait_for(other, t.epoch); }
        }
        return nullptr;
    }

    /// Records an event for each use in `held` that has none, if that needs no wait, so that a
    /// later `poll` can find the use complete.
    void try_record_events(tags const& held) noexcept {
        for (tag const& t : held) {
            timeline& other = *slots_[t.slot];
            if (t.epoch != tag::captured && !other.has_event(t.epoch)) { other.try_record_event(); }
        }
    }

    /// Queries if the uses in `held` are complete. Records an event for each use that has none, if
    /// that needs no wait.
    void ask(tags const& held) {
        for (tag const& t : held) {
            timeline& other = *slots_[t.slot];
            if (t.epoch == tag::captured || other.done(t.epoch)) { continue; }
            if (!other.has_event(t.epoch)) { other.try_record_event(); }
            other.poll();
        }
    }
    /// Returns the timeline of a captured stream with a use in `held` for which no event was
    /// recorded, or null. Such memory may belong to the graph.
    [[nodiscard]] timeline const* in_capture(tags const& held) {
        for (tag const& t : held) {
            timeline& other = *slots_[t.slot];
            if (!other.done(t.epoch) && !other.has_event(t.epoch) && other.captured()) {
                return &other;
            }
        }
        return nullptr;
    }
    [[nodiscard]] bool several() const noexcept { return slots_.size() > 1; }
    /// Records an event on every stream that has freed memory since its last event, if that needs
    /// no wait, so that a later `poll` can find that memory unused. Does nothing if there is only
    /// one stream, because it needs no event.
    void try_record_all() noexcept {
        if (!several()) { return; }
        for (timeline* each : slots_) { each->try_record_event(); }
    }

    /// Makes the host wait until all uses in `held` are complete, with `guard` unlocked during the
    /// wait. Returns null, or the timeline of a stream that cannot be waited for because it is
    /// being captured.
    template <class Guard>
    [[nodiscard]] timeline const* finish(tags const& held, Guard& guard) {
        for (tag const& t : held) {
            timeline& other = *slots_[t.slot];
            if (other.done(t.epoch)) { continue; }
            if (t.epoch == tag::captured || !ensure_event(other, t.epoch)) { return &other; }
            if (!other.done(t.epoch)) { finish(other, t.epoch, guard); }
        }
        return nullptr;
    }

    /// Makes the host wait for everything freed so far on any stream. Returns false if a stream is
    /// being captured; of such a stream only the frees before its last event were waited for.
    template <class Guard>
    bool finish_all(Guard& guard) {
        bool all = true;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            timeline&     each  = *slots_[i];
            std::uint64_t epoch = each.last_epoch();
            if (each.done(epoch)) { continue; }
            if (!ensure_event(each, epoch)) {
                all = false;
                --epoch;
            }
            if (!each.done(epoch)) { finish(each, epoch, guard); }
        }
        return all;
    }

    /// Queries the recorded events of every stream and updates its completed epoch.
    void poll() {
        for (timeline* each : slots_) { each->poll(); }
    }

    /// Announces that a stream is about to be destroyed: an event is recorded behind everything
    /// freed on it, and its handle is forgotten.
    void retire(stream s) {
        timeline* const gone = by_key_.find(key_of(s));
        if (gone != nullptr) { retire(*gone); }
    }
    /// Records an event behind everything freed on a stream for which no event stands yet. Never
    /// waits and never throws (`stream_timeline::try_record_event`). If the stream was destroyed
    /// without notice, its handle is forgotten, and that is reported with the bytes that wait for it.
    recorded cover(timeline& its, std::size_t bytes) noexcept {
        recorded const how = its.try_record_event();
        if (how == recorded::lost && its.alive()) {
            its.report_death(bytes);
            forget(its);
        }
        return how;
    }
    /// Announces that a stream is about to be destroyed, without a wait. If an event cannot be
    /// recorded or queried now, its handle is not forgotten, and `cover` and `poll` can be called
    /// again.
    void try_retire(stream s) {
        timeline* const gone = by_key_.find(key_of(s));
        if (gone == nullptr) { return; }
        bool queried = true;
        try {
            gone->poll(); // an event that a capture took is recorded again
        } catch (...) { queried = false; }
        if (stands(cover(*gone, 0)) && queried) { forget(*gone); }
    }

    [[nodiscard]] std::uint64_t events() const noexcept {
        std::uint64_t sum = 0;
        for (timeline const* each : slots_) { sum += each->events(); }
        return sum;
    }
    [[nodiscard]] std::uint64_t waits() const noexcept {
        std::uint64_t sum = 0;
        for (timeline const* each : slots_) { sum += each->waits(); }
        return sum;
    }
    /// Returns the number of timelines, including those of retired streams.
    [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
    /// States that no captured graph will run again: no stream's memory is graph-retained any more.
    void forget_captures() noexcept {
        for (timeline* each : slots_) { each->forget_captures(); }
    }
    /// Returns the epoch until which graph-retained memory of the stream in `slot` is pending once
    /// captures are forgotten. The stream may have used the memory before the capture, and the last
    /// run of the graph may still use it.
    [[nodiscard]] std::uint64_t after_captures(std::size_t slot) noexcept {
        timeline& its = *slots_[slot];
        return its.alive() ? its.epoch_of_free() : its.last_epoch();
    }

    /// Called at the end of a pool: makes the host wait for everything freed, and for whole devices
    /// if a stream cannot be waited for. Errors are reported, not thrown.
    template <class Guard>
    void wait_for_all(Guard& guard) noexcept {
        bool all = false;
        try {
            all = finish_all(guard);
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the wait for a stream"});
        }
        for (timeline* each : slots_) { all = all && !each->has_graph_memory(); }
        if (!all) { wait_for_devices(); }
    }
    /// Makes the host wait for the device of every timeline. Returns true if all waits succeeded.
    bool wait_for_devices() noexcept {
        bool all = true;
        for (timeline* each : slots_) { all = try_wait(each->device()) && all; }
        return all;
    }
    /// Waits until memory that was freed on `s` is no longer used, if no timeline could be obtained
    /// for `s`: waits for the stream, or, if that fails, for all devices. Returns false if it is
    /// unknown whether the memory is in use: the stream is being captured, which a wait would
    /// invalidate, or the waits failed.
    [[nodiscard]] bool wait_for_user(stream s) noexcept {
        if (captures(s)) { return false; }
        return try_wait(s) || wait_for_all_devices();
    }
    /// Waits for the devices of all timelines and for the calling thread's device, in case of
    /// streams that were never met. Returns true if all waits succeeded.
    bool wait_for_all_devices() noexcept {
        bool const all = wait_for_devices();
        return try_wait_for_current_device() && all;
    }
    /// Returns true if the stream is known to be captured. Never throws.
    [[nodiscard]] static bool captures(stream s) noexcept {
        bool found = false;
        (void)quietly([&] { found = Platform::capturing(s); });
        return found;
    }
    /// Returns the timeline with that stream id. If its slot was reused for another stream, returns
    /// any timeline; there is at least one.
    [[nodiscard]] timeline& by_id(std::uint64_t id) noexcept {
        for (timeline* each : slots_) {
            if (each->id() == id) { return *each; }
        }
        return *slots_[0];
    }
    /// Waits for a stream or a device and reports errors. Returns true on success.
    template <class What>
    static bool try_wait(What const& what) noexcept {
        return quietly([&] {
            if constexpr (std::same_as<What, typename Platform::device>) {
                await_device<Platform>(what);
            } else {
                Platform::synchronize(what);
            }
        });
    }
    /// Waits for the calling thread's device and reports errors. Returns true on success.
    static bool try_wait_for_current_device() noexcept {
        return quietly([] { await_device<Platform>(Platform::current_device()); });
    }

private:
    /// Calls `call()`. If it throws, reports the error and returns false.
    template <class Call>
    static bool quietly(Call call) noexcept {
        try {
            call();
            return true;
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the wait for a stream"});
        }
        return false;
    }

    static constexpr std::size_t seats = 8;

    void retire(timeline& gone) {
        gone.poll(); // an event that a capture took is recorded again
        // Starts an epoch for graph-retained memory: see `after_captures`.
        if (gone.has_graph_memory()) { (void)gone.epoch_of_free(); }
        if (gone.has_frees() && gone.ensure_event(gone.last_epoch())) { gone.poll(); }
        forget(gone);
    }
    template <class Visit>
    [[gnu::noinline]] void forget_ended_now(Visit const& visit) noexcept {
        // Read before the loop, because more streams may be destroyed during it.
        ends_seen_ = Platform::ends();
        for (timeline* each : slots_) {
            if (!each->alive() || !each->ended()) { continue; }
            try {
                visit(*each);
                retire(*each);
            } catch (...) { // the event is recorded later, when memory of this stream is needed
                report_caught(
                    {.kind = error_kind::platform_error, .call = "recording an event on a stream"});
            }
        }
    }

    /// Makes sure that an event was recorded behind that epoch. If the stream turns out to be
    /// destroyed, its timeline is retired, so that a new stream with the same handle gets another
    /// one.
    [[nodiscard]] bool ensure_event(timeline& its, std::uint64_t epoch) {
        bool const lived   = its.alive();
        bool const covered = its.ensure_event(epoch);
        if (lived && !its.alive()) { forget(its); }
        return covered;
    }

    /// An entry of a small direct-mapped cache of timelines by stream key. The key 0 means that the
    /// entry is empty.
    struct seat {
        std::uint64_t key = 0;
        timeline*     who = nullptr;
    };
    [[nodiscard]] static std::size_t seat_of(std::uint64_t key) noexcept {
        return static_cast<std::size_t>(scramble(key) >> 61);
    }

    template <class Guard>
    static void finish(timeline& other, std::uint64_t epoch, Guard& guard) {
        auto&               e     = other.event_for(epoch);
        std::uint64_t const until = e.epoch;
        struct pin { // keeps the event from being reused while the lock is released
            unsigned& count;
            Guard&    held;
            pin(unsigned& c, Guard& g) : count{c}, held{g} {
                ++count;
                held.unlock();
            }
            ~pin() {
                held.lock();
                --count;
            }
        };
        {
            pin const open{e.pins, guard};
            Platform::synchronize(e.what);
        }
        other.complete_up_to(until);
        other.count_wait();
    }

    [[nodiscard, gnu::always_inline]] std::uint64_t key_of(stream s) const {
        return by_name_ ? stream_key<Platform>::named(s) : stream_key<Platform>::lasting(s);
    }
    [[gnu::noinline]] timeline& find(stream s, std::uint64_t key) {
        timeline* found = known_before(key);
        if (found != nullptr) { return *found; }
        found = by_key_.find(key);
        if (found == nullptr) { found = &meet(s, key); }
        seats_[seat_of(key)] = {key, found};
        recent_              = found;
        recent_key_          = key;
        return *found;
    }
    /// Returns the timeline of a stream from the direct-mapped cache, and makes it the most recent
    /// one. Null if it is not there.
    [[gnu::noinline]] timeline* known_before(std::uint64_t key) noexcept {
        seat const& its = seats_[seat_of(key)];
        if (its.key != key) { return nullptr; }
        recent_     = its.who;
        recent_key_ = key;
        return its.who;
    }
    /// Creates the timeline of a new stream, or reuses one without pending uses.
    timeline& meet(stream s, std::uint64_t key) { return meet(s, key, identify<Platform>(s)); }
    timeline& meet(stream s, std::uint64_t key, identity const& who) {
        by_key_.reserve(1);
        if (slots_.size() >= reuse_from_) {
            for (timeline* each : slots_) {
                // Without an event the timeline would hold the destroyed stream forever.
                if (each->ended()) { each->try_record_event(); }
                each->poll();
                // If the owner does not visit destroyed streams, `forget` releases the hold.
                bool const over = each->ended() && !visits_ends_;
                bool const used = each->announced() && !over;
                if (used || !each->nothing_pending() || each->device() != who.where) { continue; }
                if (each->alive()) { forget(*each); }
                each->adopt(s, key, who, hold_stream<Platform>(s));
                by_key_.insert(key, each);
                return *each;
            }
            reuse_from_ *= 2;
        }
        slots_.reserve(slots_.size() + 1);
        auto* const fresh =
            new timeline{s, key, slots_.size(), who, hold_stream<Platform>(s), most_events_};
        slots_.push(fresh);
        by_key_.insert(key, fresh);
        return *fresh;
    }
    void forget(timeline& gone) noexcept {
        by_key_.erase(gone.key());
        gone.end();
        seats_[seat_of(gone.key())] = {};
        if (recent_ == &gone) { recent_key_ = 0; }
    }
    [[gnu::noinline]] void drop() noexcept {
        for (timeline* each : slots_) { delete each; }
        slots_.clear();
    }

    heap_array<timeline*> slots_;
    address_map<timeline> by_key_;
    bool                  by_name_;
    bool                  visits_ends_;
    std::size_t           most_events_;
    timeline*             recent_     = nullptr; ///< the timeline that was used last
    std::uint64_t         recent_key_ = 0;       ///< key of the stream of `recent_`, or 0
    seat                  seats_[seats];         ///< cache of timelines, for streams that alternate
    /// True if `exclude` was called since the last `readmit`.
    bool          some_excluded_ = false;
    std::uint64_t ends_seen_     = 0; ///< number of destroyed streams handled so far
    /// From this number of timelines on, one without pending uses is reused for a new stream.
    std::size_t reuse_from_ = 16;
};

} // namespace detail
} // namespace vram
