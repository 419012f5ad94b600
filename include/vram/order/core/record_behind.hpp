// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `record_behind` records an event on a stream that another thread may capture at any moment.

#include <vram/concepts/core/is_default_stream.hpp>
#include <vram/concepts/core/stream_hold.hpp>
#include <vram/concepts/core/stream_standing.hpp> // standing_of

#include <concepts> // same_as
#include <cstdint>

namespace vram {
namespace detail {

/// The result of `record_behind`, which tries to record an event behind the work of a stream.
enum class recorded : unsigned char {
    pending, ///< the event was recorded; the work before it may be incomplete
    /// The work of the stream is complete, as the event shows or because the device was reset.
    done,
    /// No event that may be queried or waited for was recorded: the stream is being captured, or
    /// host threads wait for all events of the stream, so that none may be recorded again.
    captured,
    /// Nothing was recorded: the handle is that of a default stream, and means a different stream
    /// on this thread.
    elsewhere,
    lost,   ///< the stream was destroyed without a call of `retire`: nothing was recorded
    failed, ///< the platform reported an error: nothing was recorded
};

/// Returns true if an event was recorded behind the work of the stream, or if that work is known to
/// be complete.
[[nodiscard]] constexpr bool stands(recorded how) noexcept {
    return how == recorded::pending || how == recorded::done;
}

/// Called in a `catch` block. Returns true if the error means that the stream does not exist.
/// Returns false for any other error, or if the platform cannot tell.
template <class Platform>
[[nodiscard]] bool names_no_stream() noexcept {
    if constexpr (requires(typename Platform::error const& e) {
                      { Platform::names_no_stream(e) } -> std::same_as<bool>;
                  }) {
        try {
            throw;
        } catch (typename Platform::error const& e) {
            return Platform::names_no_stream(e);
        } catch (...) {}
    }
    return false;
}

/// Returns true if the stream is being captured. Returns false if it is not, or if the query fails.
template <class Platform>
[[nodiscard]] bool captures(typename Platform::stream s) noexcept {
    try {
        return Platform::capturing(s);
    } catch (...) { return false; }
}

/// Records the event `e` behind the work of the stream `s` with the id `id`. `held` is a hold of
/// the stream (a reference that keeps the handle valid after the owner has destroyed the stream) or
/// empty. The owner of the stream may begin or end a capture between any two calls, so the work of
/// the stream is not queried, only its capture status and the event. If the stream is being
/// captured before or after the event is recorded, returns `captured`: the event may belong to the
/// graph, and must not be queried or waited for, but may be recorded again. If the event was
/// recorded in a capture that has ended unnoticed, the query of the event fails without harm, and
/// the event is recorded again, up to four times in all.
///
/// Failure   Errors of the platform are rethrown; a failed query of the event after the fourth
///           attempt.
/// Threads   Any thread may call. One thread at a time may use the event.
/// Streams   `s` may belong to any thread. Work enqueued during the call may be included.
/// Cost      Recording an event, one query of the event, and two queries of the capture status.
template <class Platform>
[[nodiscard, gnu::noinline]] recorded record_behind(typename Platform::event& e,
                                                    typename Platform::stream s, std::uint64_t id,
                                                    stream_hold<Platform> const& held = {}) {
    if (!held) {
        stream_standing const now = standing_of<Platform>(s, id);
        if (now == stream_standing::reset) { return recorded::done; }
        if (now != stream_standing::there) {
            return is_default_stream<Platform>(s) ? recorded::elsewhere : recorded::lost;
        }
    }
    constexpr int attempts = 4;
    for (int i = 1;; ++i) {
        try {
            if (held.ended()) {
                // A destroyed stream has no owner that could capture the stream. So the event is
                // recorded without a query, with the hold (a reference of the stream).
                held.record(e);
            } else {
                if (Platform::capturing(s)) { return recorded::captured; }
                Platform::record(e, s);
                if (Platform::capturing(s)) { return recorded::captured; }
            }
        } catch (...) {
            // If the owner has destroyed the stream, its handle `s` cannot be used. The next
            // attempt records the event with `held`: a reference with which the platform keeps the
            // destroyed stream usable.
            if (held.ended() && i < attempts) { continue; }
            // If a capture of the stream was invalidated by an error, recording fails as well. The
            // stream counts as captured until that capture is ended.
            if (detail::captures<Platform>(s)) { return recorded::captured; }
            if (!held && detail::names_no_stream<Platform>()) { return recorded::lost; }
            throw;
        }
        try {
            return Platform::done(e) ? recorded::done : recorded::pending;
        } catch (...) {
            if (i == attempts) { throw; }
        }
    }
}

} // namespace detail
} // namespace vram
