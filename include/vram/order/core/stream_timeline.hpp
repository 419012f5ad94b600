// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_timeline` is the timeline of one stream: it tells if memory freed on the stream is still
/// in use.

#include <vram/base/core/heap_array.hpp>
#include <vram/base/core/report_caught.hpp> // report_failed_call
#include <vram/base/error.hpp>              // report_error
#include <vram/concepts/core/await_device.hpp>
#include <vram/concepts/core/is_ending.hpp>
#include <vram/concepts/core/name_of_stream.hpp>
#include <vram/concepts/core/observation.hpp>     // waits_made, host_waits_made
#include <vram/concepts/core/stream_hold.hpp>     // stream_hold, hold_stream
#include <vram/concepts/core/stream_standing.hpp> // stream_identity, standing_of, was_reset
#include <vram/order/core/record_behind.hpp>
#include <vram/order/core/recorded_events.hpp>
#include <vram/order/core/tag.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The record of the progress of one stream, used to find out if freed memory is still in use. Each
/// recorded event ends a numbered part of the stream's work (epoch). Another thread may capture the
/// stream at any moment.
///
/// Failure   Rethrows errors of the platform, unless a function is `noexcept`.
/// Threads   One thread at a time. Other threads may wait for events; `pins` counts these threads.
template <class Platform>
class stream_timeline {
public:
    using stream   = typename Platform::stream;
    using event    = typename Platform::event;
    using identity = stream_identity<Platform>;
    using entry    = typename recorded_events<Platform>::entry;
    /// Default for the largest number of events of one stream.
    static constexpr std::size_t most = 8;

    /// Creates the timeline (record of progress) of the stream `s`. Must be called by the thread
    /// that uses `s`. `key`: the stream's `stream_key`. `slot`: index of this timeline in its
    /// table.
    stream_timeline(stream s, std::uint64_t key, std::size_t slot)
        : stream_timeline{s, key, slot, identify<Platform>(s), hold_stream<Platform>(s)} {}
    /// Creates the timeline of the stream `s` without a query of `s`, because another thread may
    /// use `s` now. `who`: the stream's id and device. `held`: counted reference that keeps the
    /// stream's handle valid; may be empty.
    stream_timeline(stream s, std::uint64_t key, std::size_t slot, identity const& who,
                    stream_hold<Platform> held, std::size_t most_events = most)
        : slot_{slot}, recorded_{most_events} {
        adopt(s, key, who, std::move(held));
    }

    /// From now on, this timeline (record of progress) belongs to the stream `s` instead of its
    /// former stream. `nothing_pending()` must be true.
    void adopt(stream s, std::uint64_t key, identity const& who,
               stream_hold<Platform> held) noexcept {
        id_             = who.id;
        device_         = who.where;
        stream_         = s;
        held_           = std::move(held);
        key_            = key;
        alive_          = true;
        death_reported_ = false;
        // The new stream has not waited for any other stream yet.
        waited_.clear();
    }
    void adopt(stream s, std::uint64_t key) {
        adopt(s, key, identify<Platform>(s), hold_stream<Platform>(s));
    }

    /// Notes that memory was freed on this stream. Returns the number of the part of the stream's
    /// work (epoch) to which the free belongs.
    [[nodiscard]] std::uint64_t epoch_of_free() noexcept {
        freed_until_ = epoch_;
        return epoch_;
    }
    /// Called instead of `epoch_of_free` if the stream is being captured. The captured graph may
    /// use the freed memory later. Returns `tag::captured`, an epoch that is never complete. Makes
    /// `has_graph_memory()` true until `forget_captures` is called.
    [[nodiscard]] std::uint64_t epoch_of_captured_free() noexcept {
        has_graph_memory_ = true;
        return tag::captured;
    }
    void               forget_captures() noexcept { has_graph_memory_ = false; }
    [[nodiscard]] bool has_graph_memory() const noexcept { return has_graph_memory_; }
    [[nodiscard]] bool done(std::uint64_t epoch) const noexcept { return epoch <= done_; }

    /// Returns true if it is known that no stream or graph uses memory freed on this stream.
    [[nodiscard]] bool nothing_pending() const noexcept {
        return !has_frees() && !has_graph_memory_ && done_ + 1 == epoch_;
    }

    /// Queries the recorded events, oldest first, and updates the number of the last epoch (part of
    /// the stream's work) known to be complete.
    [[gnu::noinline]] void poll() {
        while (entry* const oldest = recorded_.oldest()) {
            if (oldest->epoch > done_) {
                recorded const how = ask(*oldest);
                if (how == recorded::pending) { return; }
                if (how != recorded::done) {
                    // A captured graph contains the event, so it is discarded. The next event that
                    // is recorded on the stream also covers the work before this event.
                    recorded_.pop();
                    continue;
                }
            }
            complete_up_to(oldest->epoch);
            recorded_.pop();
        }
    }

    /// Makes sure that the stream's work up to the end of `epoch` is complete or has an event
    /// behind it. If no event can be recorded, the host waits for the work. Returns false, without
    /// a wait, if the stream is being captured.
    [[nodiscard]] bool ensure_event(std::uint64_t epoch) {
        if (has_event(epoch)) { return true; }
        recorded how = recorded::lost;
        if (alive_) {
            how = try_twice();
            if (how == recorded::captured) { has_graph_memory_ = true; }
            if (how != recorded::lost && how != recorded::elsewhere) {
                return how != recorded::captured;
            }
        }
        bool const died = alive_ && how == recorded::lost;
        if (died) { report_death(); }
        // No event can be recorded: the stream was destroyed or retired, or the handle denotes
        // another default stream here. The host therefore waits for the whole device.
        await_device<Platform>(device_);
        end_epoch();
        count_host_wait();
        if (died) { end(); }
        return true;
    }

    /// Returns true if the stream exists and is being captured. `has_graph_memory()` is then true
    /// from now on, because the graph may use memory freed on this stream.
    [[nodiscard]] bool captured() {
        bool const found  = is_there() && !held_.ended() && Platform::capturing(stream_);
        has_graph_memory_ = has_graph_memory_ || found;
        return found;
    }
    /// Returns true if `epoch`, a part of the stream's work, is complete or has an event behind it.
    [[nodiscard]] bool has_event(std::uint64_t epoch) const noexcept {
        return done(epoch) || recorded_.has_event(epoch);
    }
    /// Returns the last epoch (part of the stream's work) that is complete or has an event.
    [[nodiscard]] std::uint64_t covered() const noexcept {
        std::uint64_t const last = recorded_.last_epoch();
        return last > done_ ? last : done_;
    }
    /// Returns the number of the current epoch, the newest part of the stream's work. The next
    /// event or host wait ends this part.
    [[nodiscard]] std::uint64_t running() const noexcept { return epoch_; }
    /// Tries, without a wait, to record an event behind all frees of the stream. Returns `done` if
    /// the frees need no event. Returns `failed` after an error, which is reported.
    recorded try_record_event() noexcept {
        if (!has_frees()) { return recorded::done; }
        if (!alive_) { return recorded::lost; }
        try {
            return record_now(false);
        } catch (...) { report_failed_call("recording an event on a stream"); }
        return recorded::failed;
    }
    /// Reports once for each stream that it was destroyed without `retire`, unless the process is
    /// ending. `bytes`: size of the freed memory that waited for the stream.
    void report_death(std::size_t bytes = 0) noexcept {
        if (std::exchange(death_reported_, true) || is_ending<Platform>()) { return; }
        report_error({.kind   = error_kind::dead_stream,
                      .bytes  = bytes,
                      .stream = name_of_stream<Platform>(stream_, id_)});
    }

    /// Called if no event can be recorded because the stream is being captured. Until `readmit`,
    /// other streams may not use memory that was freed on this stream and that no event covers.
    void exclude() noexcept { excluded_from_ = covered() + 1; }
    /// Ends the effect of `exclude`, which withheld freed memory from other streams.
    void               readmit() noexcept { excluded_from_ = tag::captured; }
    [[nodiscard]] bool is_excluded(std::uint64_t epoch) const noexcept {
        return epoch >= excluded_from_;
    }

    /// Records an event behind the stream's work so far, which ends the current epoch (newest part
    /// of the work). If all events are in use, the host waits for the work instead. Returns false
    /// if no event can be recorded on the stream, for example during a capture.
    [[nodiscard]] bool record() {
        recorded const how = try_twice();
        return stands(how);
    }

    /// Records an event behind all frees of this stream so far. Returns false if every event is in
    /// use, or if the stream is being captured. Only the thread that uses the stream may call.
    bool record_in_order() {
        entry* const one = recorded_.spare(device_);
        if (one == nullptr) { return false; }
        Platform::record(one->what, stream_);
        if (Platform::capturing(stream_)) { return false; }
        // Makes `has_frees()` true if `poll` discards this event before a later one is recorded.
        freed_until_ = epoch_;
        end_epoch_with_event();
        return true;
    }
    /// Records an event behind all frees of this stream so far, if possible. Reports errors. Only
    /// the thread that uses the stream may call.
    void try_record() noexcept {
        try {
            (void)record_in_order();
        } catch (...) { report_failed_call("recording an event on a stream"); }
    }

    /// Returns the earliest recorded event that covers `epoch`, a numbered part of the stream's
    /// work. There must be such an event: `has_event(epoch)` is true and `done(epoch)` is false.
    [[nodiscard]] entry& event_for(std::uint64_t epoch) noexcept {
        return recorded_.event_for(epoch);
    }

    void complete_up_to(std::uint64_t epoch) noexcept { done_ = epoch > done_ ? epoch : done_; }

    /// Ends the current epoch (newest part of the stream's work) and marks the epoch complete. All
    /// work of the stream must be complete.
    void end_epoch() noexcept {
        complete_up_to(epoch_++);
        recorded_.clear();
    }
    /// Ends the current epoch (newest part of the stream's work) without an event. Returns its
    /// number, which the caller must pass to `complete_up_to` after a wait for the device.
    [[nodiscard]] std::uint64_t end_epoch_without_event() noexcept { return epoch_++; }

    void count_host_wait() noexcept {
        ++waits_;
        ++host_waits_made;
    }
    void count_wait() noexcept {
        ++waits_;
        ++waits_made;
    }

    /// Returns the number of the last epoch (part of the work) of the stream with the index `slot`
    /// for which this stream has waited. Returns 0 if it has never waited for that stream.
    [[nodiscard]] std::uint64_t waited(std::size_t slot) const noexcept {
        return slot < waited_.size() ? waited_[slot] : 0;
    }
    /// Makes this stream wait until the stream of `other` has completed the part `epoch` of its
    /// work. An event behind this part must have been recorded.
    void wait_for(stream_timeline& other, std::uint64_t epoch) {
        waited_.reserve(other.slot_ + 1);
        while (waited_.size() <= other.slot_) { waited_.push(std::uint64_t{0}); }
        entry const& e = other.event_for(epoch);
        Platform::wait(stream_, e.what);
        waited_[other.slot_] = e.epoch;
        count_wait();
    }

    /// Gives up the stream's handle, so that this timeline (record of progress) does not use the
    /// handle afterwards. Called if the stream was or will be destroyed, and before `adopt`.
    void end() noexcept {
        alive_ = false;
        held_  = {};
    }

    [[nodiscard]] std::size_t   slot() const noexcept { return slot_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    [[nodiscard]] bool          alive() const noexcept { return alive_; }
    /// Returns true if the handle still denotes this stream: a hold (counted reference) keeps it
    /// valid, or the platform finds the same stream. Returns false after `end`.
    [[nodiscard]] bool is_there() const noexcept {
        return alive_ && (held_ || standing_of<Platform>(stream_, id_) == stream_standing::there);
    }
    /// Returns true if the timeline has a hold (counted reference) on the stream, so that the
    /// platform announces the stream's end. Returns false after a call of `end`.
    [[nodiscard]] bool announced() const noexcept { return static_cast<bool>(held_); }
    /// Returns true if the owner has destroyed the stream and the platform has announced this.
    /// Returns false after a call of `end`, because `end` gives up the stream.
    [[nodiscard]] bool ended() const noexcept { return held_.ended(); }
    /// Returns true if the last free on the stream may be incomplete and has no event behind it.
    [[nodiscard]] bool          has_frees() const noexcept { return !has_event(freed_until_); }
    [[nodiscard]] std::uint64_t last_epoch() const noexcept {
        return has_frees() ? epoch_ : epoch_ - 1;
    }
    [[nodiscard]] auto const&   device() const noexcept { return device_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
    [[nodiscard]] std::uint64_t waits() const noexcept { return waits_; }

private:
    [[nodiscard]] recorded record_behind_all(event& e) {
        return record_behind<Platform>(e, stream_, id_, held_);
    }

    /// Tries to record an event. Reports an exception and tries once more; rethrows a second one.
    recorded try_twice() {
        try {
            return record_now(true);
        } catch (...) { report_failed_call("recording an event on a stream"); }
        return record_now(true);
    }
    /// Records an event behind the stream's work, which ends the current epoch (newest part of the
    /// work). If no event is available and `may_wait` is true, the host waits for the work. If
    /// `may_wait` is false, the result is `captured` in this case.
    recorded record_now(bool may_wait) {
        if (!held_ && was_reset<Platform>(stream_, id_)) {
            // The reset of the device has ended all work of the stream. Recording an event would
            // create a new context on the device.
            end_epoch();
            return recorded::done;
        }
        entry* const one = recorded_.spare(device_);
        if (one == nullptr) { return may_wait ? wait_behind() : recorded::captured; }
        recorded const how = record_behind_all(one->what);
        if (how == recorded::pending) { end_epoch_with_event(); }
        if (how == recorded::done) {
            ++events_;
            end_epoch();
        }
        return how;
    }
    /// Records a temporary event behind all work of the stream, makes the host wait for this event,
    /// and returns `done`. If the event cannot be recorded, returns the reason.
    recorded wait_behind() {
        event          e{device_};
        recorded const how = record_behind_all(e);
        if (!stands(how)) { return how; }
        Platform::synchronize(e);
        end_epoch();
        count_host_wait();
        return recorded::done;
    }
    /// Returns `done` if the event is complete, and `pending` if not. The query fails if a captured
    /// graph contains the event. The event is then recorded again, and the result of that is
    /// returned. If the result is neither `done` nor `pending`, the caller must discard the event.
    [[nodiscard]] recorded ask(entry& one) {
        try {
            return Platform::done(one.what) ? recorded::done : recorded::pending;
        } catch (...) {
            if (one.pins != 0 || !alive_) { throw; }
        }
        return record_behind_all(one.what);
    }

    /// Ends the current epoch (newest part of the stream's work) with the event that
    /// `recorded_.spare` has returned and the caller has recorded.
    void end_epoch_with_event() noexcept {
        recorded_.push(epoch_++);
        ++events_;
    }

    std::size_t                                 slot_;
    stream                                      stream_{};
    [[no_unique_address]] stream_hold<Platform> held_{};
    typename Platform::device                   device_{};
    std::uint64_t                               key_ = 0;
    std::uint64_t                               id_  = 0;
    /// Number of the current epoch: the stream's work after the end of the previous epoch.
    std::uint64_t epoch_ = 1;
    /// Number of the last epoch (part of the stream's work) that is known to be complete.
    std::uint64_t done_ = 0;
    /// Last epoch (numbered part of the stream's work) that an event or a host wait must cover,
    /// usually because memory was freed in it. 0 if there is no such epoch.
    std::uint64_t freed_until_    = 0;
    std::uint64_t events_         = 0;
    std::uint64_t waits_          = 0;
    bool          alive_          = true;
    bool          death_reported_ = false; ///< true once the error `dead_stream` was reported
    /// True if a captured graph may use memory freed on this stream.
    bool has_graph_memory_ = false;
    /// Memory that this stream freed in this epoch (numbered part of its work) or later is withheld
    /// from other streams. `tag::captured` means that no memory is withheld.
    std::uint64_t             excluded_from_ = tag::captured;
    recorded_events<Platform> recorded_;
    /// The element with the index of another timeline is the last epoch (numbered part of that
    /// stream's work) for which this stream has waited.
    heap_array<std::uint64_t> waited_;
};

} // namespace detail
} // namespace vram
