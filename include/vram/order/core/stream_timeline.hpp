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
/// Threads   One thread at a time. Other threads may wait for events; `pins` counts them.
template <class Platform>
class stream_timeline {
public:
    using stream   = typename Platform::stream;
    using event    = typename Platform::event;
    using identity = stream_identity<Platform>;
    using entry    = typename recorded_events<Platform>::entry;
    /// Largest number of events of one stream, unless the constructor gets another number.
    static constexpr std::size_t most = 8;

    /// Starts the record of a stream that the calling thread uses. `key` is the stream's
    /// `stream_key`, and `slot` the index of this timeline in its table.
    stream_timeline(stream s, std::uint64_t key, std::size_t slot)
        : stream_timeline{s, key, slot, identify<Platform>(s), hold_stream<Platform>(s)} {}
    /// Creates the timeline of a stream that another thread may use now, so it is not queried:
    /// `who` is its id and device. `held`, unless empty, keeps its handle valid.
    stream_timeline(stream s, std::uint64_t key, std::size_t slot, identity const& who,
                    stream_hold<Platform> held, std::size_t most_events = most)
        : slot_{slot}, recorded_{most_events} {
        adopt(s, key, who, std::move(held));
    }

    /// Uses this timeline for another stream from now on. `nothing_pending()` must be true.
    void adopt(stream s, std::uint64_t key, identity const& who,
               stream_hold<Platform> held) noexcept {
        id_             = who.id;
        device_         = who.where;
        stream_         = s;
        held_           = std::move(held);
        key_            = key;
        alive_          = true;
        death_reported_ = false;
        // The new stream has waited for no other. The numbers of epochs continue, so that memory
        // freed on the former stream still counts as unused.
        waited_.clear();
    }
    void adopt(stream s, std::uint64_t key) {
        adopt(s, key, identify<Platform>(s), hold_stream<Platform>(s));
    }

    /// Notes that memory was freed now, and returns the number of the current epoch (the newest
    /// part of the stream's work).
    [[nodiscard]] std::uint64_t epoch_of_free() noexcept {
        freed_until_ = epoch_;
        return epoch_;
    }
    /// Called for a free while the stream is being captured: a graph may use the memory. Returns an
    /// epoch that is never complete. `has_graph_memory()` is true until `forget_captures`.
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
                    // A capture has put the event into a graph: it is discarded. The next event
                    // that is recorded on the stream also covers the work before this event.
                    recorded_.pop();
                    continue;
                }
            }
            complete_up_to(oldest->epoch);
            recorded_.pop();
        }
    }

    /// Makes sure that `epoch`, a part of the stream's work, is complete or has an event. The host
    /// waits if none can be recorded. Returns false if a capture prevents both.
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
        // The stream was destroyed, or its handle is that of another thread's default stream and
        // means a different stream here: only the device can be waited for.
        await_device<Platform>(device_);
        end_epoch();
        count_host_wait();
        if (died) { end(); }
        return true;
    }

    /// Returns true if the stream exists and is being captured. Then `has_graph_memory()` is true
    /// until `forget_captures`.
    [[nodiscard]] bool captured() {
        bool const found  = is_there() && !held_.ended() && Platform::capturing(stream_);
        has_graph_memory_ = has_graph_memory_ || found;
        return found;
    }
    /// Returns true if `epoch`, a part of the stream's work, is complete or has an event recorded
    /// behind it.
    [[nodiscard]] bool has_event(std::uint64_t epoch) const noexcept {
        return done(epoch) || recorded_.has_event(epoch);
    }
    /// Returns the last epoch (part of the stream's work) that is complete or has an event recorded
    /// behind it.
    [[nodiscard]] std::uint64_t covered() const noexcept {
        std::uint64_t const last = recorded_.last_epoch();
        return last > done_ ? last : done_;
    }
    /// Returns the number of the current epoch: the stream's work since an event or a host wait
    /// ended the last epoch.
    [[nodiscard]] std::uint64_t running() const noexcept { return epoch_; }
    /// Records an event behind everything freed since the last event, so that `poll` can find the
    /// memory unused; `done` if nothing was. Never waits. Errors are reported.
    recorded try_record_event() noexcept {
        if (!has_frees()) { return recorded::done; }
        if (!alive_) { return recorded::lost; }
        try {
            return record_now(false);
        } catch (...) { report_failed_call("recording an event on a stream"); }
        return recorded::failed;
    }
    /// Reports, at most once and not while the process ends, that the stream was destroyed without
    /// `retire` while `bytes` of freed memory waited for it.
    void report_death(std::size_t bytes = 0) noexcept {
        if (std::exchange(death_reported_, true) || is_ending<Platform>()) { return; }
        report_error({.kind   = error_kind::dead_stream,
                      .bytes  = bytes,
                      .stream = name_of_stream<Platform>(stream_, id_)});
    }

    /// Called while the stream is being captured, so that no event can be recorded: makes what it
    /// freed since its last event unavailable to other streams until `readmit`.
    void exclude() noexcept { excluded_from_ = covered() + 1; }
    /// Undoes `exclude`: the memory is available to other streams again, as the number of each
    /// epoch (part of the stream's work) is below `tag::captured`.
    void               readmit() noexcept { excluded_from_ = tag::captured; }
    [[nodiscard]] bool is_excluded(std::uint64_t epoch) const noexcept {
        return epoch >= excluded_from_;
    }

    /// Ends the current epoch (newest part of the stream's work) with an event or a wait of the
    /// host. Returns false if neither is possible.
    [[nodiscard]] bool record() {
        recorded const how = try_twice();
        return stands(how);
    }

    /// Records an event behind everything freed so far. Returns false during a capture, or while
    /// host threads wait for too many events. Only the thread that uses the stream may call.
    bool record_in_order() {
        entry* const one = recorded_.spare(device_);
        if (one == nullptr) { return false; }
        Platform::record(one->what, stream_);
        if (Platform::capturing(stream_)) { return false; }
        freed_until_ = epoch_; // if `poll` discards this event, another one is needed
        end_epoch_with_event();
        return true;
    }
    /// Records an event behind everything freed so far, if possible. Only the thread that uses the
    /// stream may call. Errors are reported.
    void try_record() noexcept {
        try {
            (void)record_in_order();
        } catch (...) { report_failed_call("recording an event on a stream"); }
    }

    /// Returns the earliest recorded event behind `epoch`, a part of the stream's work.
    /// `has_event(epoch)` must be true and `done(epoch)` false.
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
    /// Ends the current epoch (newest part of the stream's work) without an event, and returns its
    /// number. The caller must wait for the device, and then call `complete_up_to`.
    [[nodiscard]] std::uint64_t end_epoch_without_event() noexcept { return epoch_++; }

    void count_host_wait() noexcept {
        ++waits_;
        ++host_waits_made;
    }
    void count_wait() noexcept {
        ++waits_;
        ++waits_made;
    }

    /// Returns how far this stream has waited for the stream with the index `slot`: the number of
    /// that stream's last epoch (part of its work) waited for, or 0.
    [[nodiscard]] std::uint64_t waited(std::size_t slot) const noexcept {
        return slot < waited_.size() ? waited_[slot] : 0;
    }
    /// Makes this stream wait for the event behind `epoch`, a part of the work of `other`'s stream.
    /// The event must be recorded.
    void wait_for(stream_timeline& other, std::uint64_t epoch) {
        waited_.reserve(other.slot_ + 1);
        while (waited_.size() <= other.slot_) { waited_.push(std::uint64_t{0}); }
        entry const& e = other.event_for(epoch);
        Platform::wait(stream_, e.what);
        waited_[other.slot_] = e.epoch;
        count_wait();
    }

    /// Gives up the stream's handle, which is not used afterwards. Called if the stream was or will
    /// be destroyed, or before this timeline serves another stream.
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
    /// Returns true if the platform has announced that the owner destroyed the stream, and `end`
    /// was not called since.
    [[nodiscard]] bool ended() const noexcept { return held_.ended(); }
    /// Returns true if neither an event nor a wait of the host covers the last free on the stream.
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
    /// Tries to record an event, which ends the current epoch (newest part of the stream's work).
    /// If host threads wait for all events, this thread waits for the stream if `may_wait`;
    /// otherwise the result is `captured`.
    recorded record_now(bool may_wait) {
        if (!held_ && was_reset<Platform>(stream_, id_)) {
            // The reset of the device ended all work. An event would create a new context.
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
    /// Makes the host wait for all work of the stream, and returns `done`. If no event can be
    /// recorded for that, returns the reason instead.
    recorded wait_behind() {
        event          e{device_};
        recorded const how = record_behind_all(e);
        if (!stands(how)) { return how; }
        Platform::synchronize(e);
        end_epoch();
        count_host_wait();
        return recorded::done;
    }
    /// Tells if an event is complete. If the query fails, for example because a graph contains the
    /// event, records it again. The caller must discard the event unless the result is `pending` or
    /// `done`.
    [[nodiscard]] recorded ask(entry& one) {
        try {
            return Platform::done(one.what) ? recorded::done : recorded::pending;
        } catch (...) {
            if (one.pins != 0 || !alive_) { throw; }
        }
        // Another thread may have captured the stream, so that a graph contains the event: records
        // it again, behind all work that the stream has now.
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
    /// Number of the current epoch: the work since an event or a host wait ended the last one.
    std::uint64_t epoch_ = 1;
    /// Number of the last epoch (part of the stream's work) that is known to be complete.
    std::uint64_t done_ = 0;
    /// An event or a host wait must cover the stream's work up to this epoch, which is at least
    /// that of the last free outside captures. 0: none.
    std::uint64_t freed_until_    = 0;
    std::uint64_t events_         = 0;
    std::uint64_t waits_          = 0;
    bool          alive_          = true;
    bool          death_reported_ = false; ///< true once the error `dead_stream` was reported
    /// True if a captured graph may use memory freed on this stream.
    bool has_graph_memory_ = false;
    /// Memory freed in this epoch (part of the stream's work) or later is unavailable to other
    /// streams. `tag::captured`, above every epoch, excludes nothing.
    std::uint64_t             excluded_from_ = tag::captured;
    recorded_events<Platform> recorded_;
    /// Element i: the last epoch (part of its work) of the stream with the index i for which this
    /// stream has waited.
    heap_array<std::uint64_t> waited_;
};

} // namespace detail
} // namespace vram
