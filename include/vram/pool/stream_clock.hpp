// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_clock` knows how far one stream has come with what was freed on it.

#include <vram/base/error.hpp>               // report_error
#include <vram/base/report_caught.hpp>       // report_caught
#include <vram/concepts/await_device.hpp>    // await_device
#include <vram/concepts/is_ending.hpp>       // is_ending
#include <vram/concepts/name_of_stream.hpp>  // name_of_stream
#include <vram/concepts/stream_hold.hpp>     // stream_hold, hold_stream
#include <vram/concepts/stream_standing.hpp> // stream_identity
#include <vram/layer/record_behind.hpp>      // record_behind
#include <vram/pool/heap_array.hpp>          // heap_array
#include <vram/pool/tag.hpp>                 // tag

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <utility> // move

namespace vram {

/// Counts epochs: each event recorded on the stream ends one, and is done when all that was freed
/// in it, and before it, is free for everybody. Few events are kept; when there are more, the
/// oldest gives way, and what it covered is covered by the next one: later, never too early.
///
/// The stream may be another thread's, which may begin a capture at any moment: the stream itself
/// is never asked or waited for, only events behind its work are (`record_behind`).
///
/// Failure   an event that cannot be recorded is reported and tried once more; what the platform
///           throws beyond that passes through, with nothing changed
/// Threads   one at a time; events that are pinned may be waited for meanwhile
/// Cost      `mark` and `done` are a comparison; the others make calls of the platform
template <class Platform>
class stream_clock {
public:
    using stream                      = typename Platform::stream;
    using event                       = typename Platform::event;
    using identity                    = stream_identity<Platform>;
    static constexpr std::size_t most = 8; ///< events kept

    /// An event and the last epoch that it covers.
    struct entry {
        event                     what;
        typename Platform::device of; ///< whose event it is
        std::uint64_t             epoch  = 0;
        unsigned                  pins   = 0; ///< host threads that wait for it now
        bool                      listed = false;
    };

    /// `key` is what the owner knows the stream by. The calling thread uses the stream.
    stream_clock(stream s, std::uint64_t key, std::size_t slot)
        : stream_clock{s, key, slot, identify<Platform>(s), hold_stream<Platform>(s)} {}
    /// The same for any thread, which knows the stream's identity.
    stream_clock(stream s, std::uint64_t key, std::size_t slot, identity const& who,
                 stream_hold<Platform> held)
        : slot_{slot} {
        entries_.reserve(most); // events never move: threads wait for them without our lock
        adopt(s, key, who, std::move(held));
    }

    /// Takes over another stream. Epochs go on, so what the former stream left behind stays done.
    void adopt(stream s, std::uint64_t key, identity const& who,
               stream_hold<Platform> held) noexcept {
        id_     = who.id;
        device_ = who.where;
        stream_ = s;
        held_   = std::move(held);
        key_    = key;
        alive_  = true;
        told_   = false;
        waited_.clear();
    }
    void adopt(stream s, std::uint64_t key) {
        adopt(s, key, identify<Platform>(s), hold_stream<Platform>(s));
    }

    /// The epoch of what is freed now.
    [[nodiscard]] std::uint64_t mark() noexcept {
        marked_ = true;
        return epoch_;
    }
    /// The epoch of what a graph captured on the stream has freed.
    [[nodiscard]] std::uint64_t mark_captured() noexcept {
        keeps_ = true;
        return tag::captured;
    }
    void               forget_captures() noexcept { keeps_ = false; }
    [[nodiscard]] bool keeps() const noexcept { return keeps_; }
    [[nodiscard]] bool done(std::uint64_t epoch) const noexcept { return epoch <= done_; }

    /// Whether nothing freed here is waited for any more.
    [[nodiscard]] bool settled() const noexcept {
        return !marked_ && !keeps_ && done_ + 1 == epoch_;
    }

    /// Asks the events, oldest first, how far the stream has come. An event that cannot be asked
    /// may be a graph's, which another thread captured and ended while it was recorded: it is
    /// recorded again.
    void poll() {
        while (count_ != 0) {
            entry& oldest = entries_[order_[0]];
            if (oldest.epoch > done_) {
                recorded const how = ask(oldest);
                if (how == recorded::pending) { return; }
                if (how != recorded::done) {
                    give_up_oldest();
                    continue;
                }
            }
            pass(oldest.epoch);
            unlist(0);
        }
    }

    /// Makes sure that an event covers `epoch`, or that it is done. False: the stream is being
    /// captured, and none can. Where the stream has died, that is told, its device waited for, and
    /// the clock ends.
    [[nodiscard]] bool cover(std::uint64_t epoch) {
        if (covered(epoch)) { return true; }
        recorded how = recorded::lost;
        if (alive_) {
            how = try_twice();
            if (how == recorded::captured) { keeps_ = true; }
            if (how != recorded::lost && how != recorded::elsewhere) {
                return how != recorded::captured;
            }
        }
        bool const died = alive_ && how == recorded::lost;
        if (died && !told_ && !is_ending<Platform>()) {
            report_error({.kind   = error_kind::dead_stream,
                          .stream = name_of_stream<Platform>(stream_, id_)});
        }
        told_ = told_ || died; // should the wait be refused
        await_device<Platform>(device_);
        end_epoch();
        ++waits_;
        if (died) { end(); }
        return true;
    }

    /// Whether the stream is being captured: then what was freed since the last event may be its
    /// graph's, and is noted to be.
    [[nodiscard]] bool captured() {
        bool const found = is_there() && !held_.ended() && Platform::capturing(stream_);
        keeps_           = keeps_ || found;
        return found;
    }
    /// Whether an event covers `epoch`, or it is done.
    [[nodiscard]] bool covered(std::uint64_t epoch) const noexcept {
        return done(epoch) || (count_ != 0 && epoch <= entries_[order_[count_ - 1]].epoch);
    }
    /// The epoch that is running: no event covers it yet.
    [[nodiscard]] std::uint64_t running() const noexcept { return epoch_; }
    /// Has an event cover all that was freed, but where that would take a wait, or more than an
    /// event: while a graph is captured, for a name that may be another stream's, for one that
    /// died.
    void cover_quickly() noexcept {
        try {
            if (marked_ && alive_) { (void)record_now(false); }
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the event of a stream"});
        }
    }

    /// Nothing that no event covers yet is to be had while the stream is being captured.
    void close() noexcept { closed_ = epoch_; }
    /// The capture may be over.
    void               open() noexcept { closed_ = tag::captured; }
    [[nodiscard]] bool closed(std::uint64_t epoch) const noexcept { return epoch >= closed_; }

    /// Ends the epoch with an event, or where there can be none by a wait of the host. False: there
    /// can be neither, for the stream is being captured, or the handle means no such stream.
    [[nodiscard]] bool record() {
        recorded const how = try_twice();
        return how == recorded::pending || how == recorded::done;
    }

    /// Ends the epoch with an event where nothing may be thrown, on a stream that the calling
    /// thread uses: no other thread captures it during the call. Where there is none the epoch
    /// simply goes on; a failure is reported.
    void try_record() noexcept {
        try {
            std::size_t const place = spare();
            if (place == most) { return; } // each is being waited for
            Platform::record(entries_[place].what, stream_);
            if (!Platform::capturing(stream_)) { list(place); }
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the event of a stream"});
        }
    }

    /// The earliest event that covers `epoch`, which is covered and not done.
    [[nodiscard]] entry& covering(std::uint64_t epoch) noexcept {
        std::size_t i = 0;
        while (entries_[order_[i]].epoch < epoch) { ++i; }
        return entries_[order_[i]];
    }

    /// Everything up to `epoch` is done, as somebody has seen.
    void pass(std::uint64_t epoch) noexcept { done_ = epoch > done_ ? epoch : done_; }

    /// All that was freed so far is done: the host has waited for it.
    void end_epoch() noexcept {
        pass(epoch_++);
        marked_ = false;
        while (count_ != 0) { unlist(0); }
    }

    /// The host has waited for this stream.
    void count_wait() noexcept { ++waits_; }

    /// How far this stream has waited for the stream in `slot`.
    [[nodiscard]] std::uint64_t waited(std::size_t slot) const noexcept {
        return slot < waited_.size() ? waited_[slot] : 0;
    }
    /// Makes this stream wait for `other` up to `epoch`, which is covered and not done.
    void wait_for(stream_clock& other, std::uint64_t epoch) {
        waited_.reserve(other.slot_ + 1);
        while (waited_.size() <= other.slot_) { waited_.push(std::uint64_t{0}); }
        entry const& e = other.covering(epoch);
        Platform::wait(stream_, e.what);
        waited_[other.slot_] = e.epoch;
        ++waits_;
    }

    /// The stream is gone, or about to be; what was freed on it is covered. Its handle may be
    /// another stream's from here on.
    void end() noexcept {
        alive_ = false;
        held_  = {};
    }

    [[nodiscard]] std::size_t   slot() const noexcept { return slot_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    [[nodiscard]] bool          alive() const noexcept { return alive_; }
    /// Whether the handle still means the stream that it was given for.
    [[nodiscard]] bool is_there() const noexcept {
        return alive_ && (held_ || standing_of<Platform>(stream_, id_) == stream_standing::there);
    }
    /// Whether the end of the stream will be announced, or was.
    [[nodiscard]] bool announced() const noexcept { return static_cast<bool>(held_); }
    /// Whether the owner of the stream has destroyed it, as was announced.
    [[nodiscard]] bool          ended() const noexcept { return held_.ended(); }
    [[nodiscard]] bool          marked() const noexcept { return marked_; }
    [[nodiscard]] std::uint64_t last_epoch() const noexcept {
        return marked_ ? epoch_ : epoch_ - 1;
    }
    [[nodiscard]] auto const&   device() const noexcept { return device_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
    [[nodiscard]] std::uint64_t waits() const noexcept { return waits_; }

private:
    [[nodiscard]] recorded record_behind_all(event& e) {
        return record_behind<Platform>(e, stream_, id_, held_);
    }

    /// `record_now`, which is reported and tried once more where it fails.
    recorded try_twice() {
        try {
            return record_now(true);
        } catch (...) {
            report_caught({.kind = error_kind::platform_error, .call = "the event of a stream"});
        }
        return record_now(true);
    }
    /// Ends the epoch with an event, if there is one. Where each is being waited for the host waits
    /// (`may_wait`), or there is none.
    recorded record_now(bool may_wait) {
        std::size_t const place = spare();
        if (place == most) { return may_wait ? wait_behind() : recorded::captured; }
        recorded const how = record_behind_all(entries_[place].what);
        if (how == recorded::pending) { list(place); }
        if (how == recorded::done) {
            ++events_;
            end_epoch();
        }
        return how;
    }
    /// The host waits for all that the stream was given, behind an event of its own.
    recorded wait_behind() {
        event          e{device_};
        recorded const how = record_behind_all(e);
        if (how != recorded::pending && how != recorded::done) { return how; }
        Platform::synchronize(e);
        end_epoch();
        ++waits_;
        return recorded::done;
    }
    /// Whether an event has happened: `pending` or `done`, and else it covers nothing.
    [[nodiscard]] recorded ask(entry& one) {
        try {
            return Platform::done(one.what) ? recorded::done : recorded::pending;
        } catch (...) {
            if (one.pins != 0 || !alive_) { throw; }
        }
        return record_behind_all(one.what);
    }
    /// The oldest event covers nothing any more; the next one covers that as well.
    void give_up_oldest() noexcept {
        unlist(0);
        if (count_ == 0) { marked_ = true; }
    }

    /// An event that was recorded ends the epoch.
    void list(std::size_t place) noexcept {
        entries_[place].epoch  = epoch_++;
        entries_[place].listed = true;
        order_[count_++]       = place;
        marked_                = false;
        ++events_;
    }
    /// The place of an event that nobody needs, or `most`.
    [[nodiscard]] std::size_t spare() {
        for (std::size_t i = 0; i < entries_.size(); ++i) {
            entry& one = entries_[i];
            if (one.listed || one.pins != 0) { continue; }
            if (one.of != device_) { // the name was another stream's
                one.what = event{device_};
                one.of   = device_;
            }
            return i;
        }
        if (entries_.size() < most) {
            entries_.push(entry{event{device_}, device_});
            return entries_.size() - 1;
        }
        for (std::size_t i = 0; i + 1 < count_; ++i) {
            std::size_t const place = order_[i];
            if (entries_[place].pins != 0) { continue; }
            unlist(i);
            return place;
        }
        return most;
    }
    void unlist(std::size_t i) noexcept {
        entries_[order_[i]].listed = false;
        for (--count_; i < count_; ++i) { order_[i] = order_[i + 1]; }
    }

    std::size_t                                 slot_;
    stream                                      stream_{};
    [[no_unique_address]] stream_hold<Platform> held_{};
    typename Platform::device                   device_{};
    std::uint64_t                               key_   = 0;
    std::uint64_t                               id_    = 0;
    std::uint64_t                               epoch_ = 1; ///< the one that is running
    std::uint64_t             done_   = 0; ///< the last one that is known to be over
    std::uint64_t             events_ = 0;
    std::uint64_t             waits_  = 0;
    bool                      marked_ = false; ///< something was freed in this epoch
    bool                      alive_  = true;
    bool                      told_   = false;         ///< that the stream has died
    bool                      keeps_  = false;         ///< a captured graph uses memory freed here
    std::uint64_t             closed_ = tag::captured; ///< what is freed from then on, for now
    std::size_t               count_  = 0;
    std::size_t               order_[most]{}; ///< events by age
    heap_array<entry>         entries_;
    heap_array<std::uint64_t> waited_; ///< by slot
};

} // namespace vram
