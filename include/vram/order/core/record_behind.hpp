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

/// The result of `record_behind`.
enum class recorded : unsigned char {
    pending, ///< the event was recorded; the work before it may be incomplete
    /// The work of the stream is complete, as the event shows or because the device was reset.
    done,
    /// Nothing can be waited for: the stream is being captured, or all its reusable events are in
    /// use by waiting host threads.
    captured,
    /// Nothing was recorded: the handle is that of a default stream of another thread or device,
    /// and means a different stream here.
    elsewhere,
    lost,   ///< the stream was destroyed, or its handle given up: nothing was recorded
    failed, ///< an error (platform's, or `std::bad_alloc`) was reported: no event is usable
};

/// Returns true if an event was recorded behind the work of the stream, or if none is needed, for
/// example because that work is complete.
[[nodiscard]] constexpr bool stands(recorded how) noexcept {
    return how == recorded::pending || how == recorded::done;
}

/// Called in a `catch` block. Returns true if the error means that the stream does not exist, false
/// if unknown.
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

/// Records the event `e` behind the work of the stream `s` with the id `id`, which another thread
/// may capture at any moment. `held`, unless empty, is a counted reference that keeps the handle
/// valid.
///
/// Failure   Rethrows errors of the platform.
/// Threads   Any thread may call. One thread at a time may use the event.
/// Streams   Work that is enqueued during the call may be included.
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
                // A destroyed stream cannot be captured, so that no query is needed. Its hold
                // `held` (counted reference) can still record events.
                held.record(e);
            } else {
                if (Platform::capturing(s)) { return recorded::captured; }
                Platform::record(e, s);
                // A capture may have begun before `record`: then a graph contains the event, which
                // must not be queried or waited for.
                if (Platform::capturing(s)) { return recorded::captured; }
            }
        } catch (...) {
            // The owner has destroyed the stream during this call: the loop tries again and now
            // records with `held`, which is still legal.
            if (held.ended() && i < attempts) { continue; }
            // After an error has invalidated a capture, recording fails until that capture is
            // ended; the stream counts as captured until then.
            if (detail::captures<Platform>(s)) { return recorded::captured; }
            if (!held && detail::names_no_stream<Platform>()) { return recorded::lost; }
            throw;
        }
        try {
            return Platform::done(e) ? recorded::done : recorded::pending;
        } catch (...) {
            // The query fails if the event is in a graph, after a capture that has ended meanwhile.
            // Unless this was the last attempt, it is recorded again.
            if (i == attempts) { throw; }
        }
    }
}

} // namespace detail
} // namespace vram
