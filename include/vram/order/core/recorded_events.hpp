// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `recorded_events` are the events that were recorded on one stream and may not be complete yet.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace vram {
namespace detail {

/// The recorded events of one stream, oldest first. The constructor sets the largest number of
/// events. Each event covers the stream's work up to the end of a numbered part (epoch).
///
/// Threads   One thread at a time. Other threads may wait for an event. `pins` counts these
///           threads. Until it is 0, the event keeps its address and is not recorded again.
template <class Platform>
class recorded_events {
public:
    using event  = typename Platform::event;
    using device = typename Platform::device;

    /// An event of a stream. Once the event is complete, the stream's work is complete up to the
    /// end of the numbered part `epoch`.
    struct entry {
        event         what;
        device        of; ///< the device on which the event was created
        std::uint64_t epoch = 0;
        /// Number of host threads that wait for the event now. While it is above 0, the event must
        /// not be recorded again.
        unsigned pins = 0;
        entry*   next = nullptr;
    };

    /// `most` is the largest number of events that may exist.
    explicit recorded_events(std::size_t most) noexcept : most_{most} {}
    recorded_events(recorded_events&&) = delete;
    ~recorded_events() {
        clear();
        while (unused_ != nullptr) { delete std::exchange(unused_, unused_->next); }
    }

    /// Returns an event of the device `d`. The caller must record the event, and then call `push`.
    /// Returns null if no more events may be created and none can be recorded again now.
    [[nodiscard]] entry* spare(device const& d) {
        entry** at = &unused_;
        while (*at != nullptr && (*at)->pins != 0) { at = &(*at)->next; }
        if (*at == nullptr) { at = count_ < most_ ? &create(d) : reusable(); }
        if (at == nullptr) { return nullptr; }
        entry& one = **at;
        // A stream of the device `d` cannot record an event of another device: replaces the event.
        if (one.of != d) {
            one.what = event{d};
            one.of   = d;
        }
        *at      = one.next;
        one.next = std::exchange(unused_, &one);
        return &one;
    }
    /// Adds the event that `spare` returned and the caller recorded. The event covers the stream's
    /// work up to the end of `epoch`.
    void push(std::uint64_t epoch) noexcept {
        entry* const one                    = std::exchange(unused_, unused_->next);
        one->epoch                          = epoch;
        one->next                           = nullptr;
        (newest_ ? newest_->next : oldest_) = one;
        newest_                             = one;
    }

    /// Returns the oldest recorded event, or null if there is none.
    [[nodiscard]] entry* oldest() const noexcept { return oldest_; }
    /// Removes the oldest recorded event, which must exist, and adds it to the unused events.
    void pop() noexcept {
        entry* const one = std::exchange(oldest_, oldest_->next);
        if (oldest_ == nullptr) { newest_ = nullptr; }
        one->next = std::exchange(unused_, one);
    }
    void clear() noexcept {
        while (oldest_ != nullptr) { pop(); }
    }

    /// Returns true if a recorded event covers `epoch`, a numbered part of the stream's work.
    [[nodiscard]] bool has_event(std::uint64_t epoch) const noexcept {
        return newest_ != nullptr && epoch <= newest_->epoch;
    }
    /// Returns the last epoch (numbered part of the stream's work) that a recorded event covers, or
    /// 0 if there is no event.
    [[nodiscard]] std::uint64_t last_epoch() const noexcept {
        return newest_ != nullptr ? newest_->epoch : 0;
    }
    /// Returns the earliest recorded event that covers `epoch`, a numbered part of the stream's
    /// work. Such an event must exist.
    [[nodiscard]] entry& event_for(std::uint64_t epoch) const noexcept {
        entry* at = oldest_;
        while (at->epoch < epoch) { at = at->next; }
        return *at;
    }

private:
    [[nodiscard]] entry*& create(device const& d) {
        unused_ = new entry{.what = event{d}, .of = d, .next = unused_};
        ++count_;
        return unused_;
    }
    /// Finds the oldest recorded event that no host thread waits for, moves it to the start of
    /// `unused_`, and returns `&unused_`. Returns null if there is no such event. Never takes the
    /// newest event, because no other event covers the latest work.
    [[nodiscard]] entry** reusable() noexcept {
        for (entry** at = &oldest_; *at != newest_; at = &(*at)->next) {
            if ((*at)->pins != 0) { continue; }
            entry* const one = std::exchange(*at, (*at)->next);
            one->next        = std::exchange(unused_, one);
            return &unused_;
        }
        return nullptr;
    }

    std::size_t most_;
    std::size_t count_  = 0;       ///< number of events, recorded or not
    entry*      oldest_ = nullptr; ///< the oldest recorded event: the first of a list
    entry*      newest_ = nullptr; ///< last recorded event in the list that starts at `oldest_`
    /// Events that are not recorded. `spare` skips those for which a host thread still waits.
    entry* unused_ = nullptr;
};

} // namespace detail
} // namespace vram
