// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_clock` knows how far one stream has come with what was freed on it.

#include <vram/base/error.hpp>                 // report_error
#include <vram/concepts/is_default_stream.hpp> // is_default_stream
#include <vram/concepts/is_destroyed.hpp>      // is_destroyed
#include <vram/concepts/is_ending.hpp>         // is_ending
#include <vram/concepts/platform.hpp>          // queries_streams
#include <vram/pool/heap_array.hpp>            // heap_array
#include <vram/pool/tag.hpp>                   // tag

#include <cstddef> // size_t
#include <cstdint> // uint64_t

namespace vram {

/// Counts epochs: each event recorded on the stream ends one, and is done when all that was freed
/// in it, and before it, is free for everybody. Few events are kept; when there are more, the
/// oldest gives way, and what it covered is covered by the next one: later, never too early.
///
/// Failure   an event that cannot be recorded is made up for by waiting on the host, and reported;
///           what the platform throws beyond that passes through, with nothing changed
/// Threads   one at a time; events that are pinned may be waited for meanwhile
/// Cost      `mark` and `done` are a comparison; the others make calls of the platform
template <class Platform>
class stream_clock {
public:
    using stream                      = typename Platform::stream;
    using event                       = typename Platform::event;
    static constexpr std::size_t most = 8; ///< events kept

    /// An event and the last epoch that it covers.
    struct entry {
        event                     what;
        typename Platform::device of; ///< whose event it is
        std::uint64_t             epoch  = 0;
        unsigned                  pins   = 0; ///< host threads that wait for it now
        bool                      listed = false;
    };

    /// `key` is what the owner knows the stream by.
    stream_clock(stream s, std::uint64_t key, std::size_t slot) : slot_{slot} {
        entries_.reserve(most); // events never move: threads wait for them without our lock
        adopt(s, key);
    }

    /// Takes over another stream. Epochs go on, so what the former stream left behind stays done.
    void adopt(stream s, std::uint64_t key) {
        auto const id     = Platform::id(s);
        auto const device = Platform::device_of(s);
        id_               = id; // both are known, or neither has changed
        device_           = device;
        stream_           = s;
        key_              = key;
        alive_            = true;
        told_             = false;
        waited_.clear();
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

    /// Asks the events, oldest first, how far the stream has come.
    void poll() {
        while (count_ != 0) {
            entry& oldest = entries_[order_[0]];
            idle_         = oldest.epoch <= done_ || Platform::done(oldest.what);
            if (!idle_) { return; }
            pass(oldest.epoch);
            unlist(0);
        }
    }

    /// Makes sure that an event covers `epoch`, or that it is done: a stream that seems to have
    /// nothing to do is asked first. False: the stream is being captured, and none can. Where the
    /// stream has died, that is told, its device waited for, and the clock ends.
    [[nodiscard]] bool cover(std::uint64_t epoch) {
        if (epoch < epoch_ || done(epoch) || end_if_idle()) { return true; }
        if (!still_named()) {
            bool const died = alive_ && !is_default_stream<Platform>(stream_);
            if (alive_ && !died && Platform::capturing(stream_)) { // a wait would end that
                keeps_ = true;
                return false;
            }
            if (died && !told_ && !is_ending<Platform>()) {
                report_error({.kind = error_kind::dead_stream});
            }
            told_ = told_ || died; // should the wait be refused
            Platform::synchronize(device_);
            end_epoch();
            ++waits_;
            if (died) { end(); }
            return true;
        }
        if (Platform::capturing(stream_) || !record()) {
            keeps_ = true;
            return false;
        }
        return true;
    }

    /// Whether the stream is being captured: then what was freed since the last event may be its
    /// graph's, and is noted to be.
    [[nodiscard]] bool captured() {
        bool const found = still_named() && Platform::capturing(stream_);
        keeps_           = keeps_ || found;
        return found;
    }
    /// Whether an event covers `epoch`, or covered it.
    [[nodiscard]] bool covered(std::uint64_t epoch) const noexcept { return epoch < running(); }
    /// The epoch that is running: no event covers it yet.
    [[nodiscard]] std::uint64_t running() const noexcept { return epoch_; }
    /// Has an event cover all that was freed, but where that would take a wait, or more than an
    /// event: while a graph is captured, for a name that may be another stream's, for one that
    /// died. There is no event where a stream that seems to have nothing to do says so itself.
    void cover_quickly() noexcept {
        try {
            if (!marked_ || !alive_ || end_if_idle()) { return; }
            if (!still_named() || Platform::capturing(stream_)) { return; }
            (void)record();
        } catch (...) { report_error({.kind = error_kind::platform_error}); }
    }

    /// Nothing that no event covers yet is to be had while the stream is being captured.
    void close() noexcept { closed_ = epoch_; }
    /// The capture may be over.
    void               open() noexcept { closed_ = tag::captured; }
    [[nodiscard]] bool closed(std::uint64_t epoch) const noexcept { return epoch >= closed_; }

    /// Ends the epoch with an event, or where there can be none by waiting for the stream. False: a
    /// capture has begun there meanwhile, for the stream is another thread's.
    [[nodiscard]] bool record() {
        try {
            if (record_event()) {
                if (!Platform::capturing(stream_)) { return true; }
                take_back_event();
                return false;
            }
        } catch (...) { report_error({.kind = error_kind::platform_error}); }
        if (Platform::capturing(stream_)) { return false; }
        wait_for_stream();
        return true;
    }

    /// The same where nothing may be thrown, and nobody waits because all events are waited for:
    /// the epoch simply goes on when that fails.
    void try_record() noexcept {
        try {
            if (record_event() && Platform::capturing(stream_)) { take_back_event(); }
            return;
        } catch (...) { report_error({.kind = error_kind::platform_error}); }
        try {
            wait_for_stream();
        } catch (...) { report_error({.kind = error_kind::platform_error}); }
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

    /// The stream is gone, or about to be; what was freed on it is covered.
    void end() noexcept { alive_ = false; }

    [[nodiscard]] std::size_t   slot() const noexcept { return slot_; }
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    [[nodiscard]] std::uint64_t key() const noexcept { return key_; }
    [[nodiscard]] bool          alive() const noexcept { return alive_; }
    [[nodiscard]] bool          marked() const noexcept { return marked_; }
    [[nodiscard]] std::uint64_t last_epoch() const noexcept {
        return marked_ ? epoch_ : epoch_ - 1;
    }
    [[nodiscard]] auto const&   device() const noexcept { return device_; }
    [[nodiscard]] std::uint64_t events() const noexcept { return events_; }
    [[nodiscard]] std::uint64_t waits() const noexcept { return waits_; }

private:
    /// Whether the handle still means the stream that it was given for.
    [[nodiscard]] bool still_named() const noexcept {
        try {
            return alive_ && !is_destroyed<Platform>(stream_) && Platform::id(stream_) == id_;
        } catch (...) { return false; }
    }

    /// Ends the epoch where the stream has nothing to do. It is asked itself if it had nothing to
    /// do the last time, or its events are over by now; that takes less than an event and a query.
    bool end_if_idle() noexcept {
        if constexpr (queries_streams<Platform>) {
            try {
                if (!alive_) { return false; }
                poll();
                idle_ = idle_ && Platform::idle(stream_, id_);
                if (idle_) { end_epoch(); }
                return idle_;
            } catch (...) { idle_ = false; } // an event covers it then, or that is told
        }
        return false;
    }

    /// Ends the epoch with an event. False: each is being waited for.
    bool record_event() {
        std::size_t const place = spare();
        if (place == most) { return false; }
        Platform::record(entries_[place].what, stream_);
        entries_[place].epoch  = epoch_++;
        entries_[place].listed = true;
        order_[count_++]       = place;
        marked_                = false;
        ++events_;
        return true;
    }
    /// The last one was recorded into a graph, and says nothing.
    void take_back_event() noexcept {
        unlist(count_ - 1);
        --epoch_;
        --events_;
        marked_ = true;
    }
    void wait_for_stream() {
        Platform::synchronize(stream_);
        end_epoch();
        ++waits_;
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

    std::size_t               slot_;
    stream                    stream_{};
    typename Platform::device device_{};
    std::uint64_t             key_    = 0;
    std::uint64_t             id_     = 0;
    std::uint64_t             epoch_  = 1; ///< the one that is running
    std::uint64_t             done_   = 0; ///< the last one that is known to be over
    std::uint64_t             events_ = 0;
    std::uint64_t             waits_  = 0;
    bool                      marked_ = false; ///< something was freed in this epoch
    bool                      alive_  = true;
    bool                      told_   = false;         ///< that the stream has died
    bool                      idle_   = false;         ///< so it was when somebody asked
    bool                      keeps_  = false;         ///< a captured graph uses memory freed here
    std::uint64_t             closed_ = tag::captured; ///< what is freed from then on, for now
    std::size_t               count_  = 0;
    std::size_t               order_[most]{}; ///< events by age
    heap_array<entry>         entries_;
    heap_array<std::uint64_t> waited_; ///< by slot
};

} // namespace vram
