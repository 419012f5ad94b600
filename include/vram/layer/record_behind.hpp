// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `record_behind` records an event on a stream that another thread may use, and capture, at any
/// moment.

#include <vram/concepts/is_default_stream.hpp> // is_default_stream
#include <vram/concepts/stream_hold.hpp>       // stream_hold
#include <vram/concepts/stream_standing.hpp>   // standing_of

#include <concepts> // same_as
#include <cstdint>  // uint64_t

namespace vram {

/// What became of an event that was recorded on a stream.
enum class recorded : unsigned char {
    pending,   ///< it covers all work that the stream had
    done,      ///< the same, and that work is done
    captured,  ///< the stream is being captured: the event covers nothing
    elsewhere, ///< the handle is a default stream's, and means another stream here: no event
    lost,      ///< the stream has ended, and its end was not announced: no event
};

namespace detail {

/// Called while an error is handled: returns true if it says that there is no such stream.
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

/// Returns true if the stream is known to be captured.
template <class Platform>
[[nodiscard]] bool captures(typename Platform::stream s) noexcept {
    try {
        return Platform::capturing(s);
    } catch (...) { return false; }
}

} // namespace detail

/// Records `e` on the stream `s` of that id, for which `held` is a hold or empty. Makes only calls
/// that are legal at any moment: no question to the stream, whose owner may begin a capture between
/// any two calls. If a capture has begun by the time that the event is recorded, the event may be
/// the graph's: it must not be asked or waited for, and may be recorded again. If the capture is
/// over by then, the question to the event fails, which harms nobody, and it is recorded again.
///
/// Failure   what the platform throws; the event may be recorded again
/// Threads   any; one thread at a time uses the event
/// Streams   `s` may be any thread's. What is given to it during the call may be covered or not
/// Cost      an event, a question to it, and two questions whether the stream is being captured
template <class Platform>
[[nodiscard]] recorded record_behind(typename Platform::event& e, typename Platform::stream s,
                                     std::uint64_t id, stream_hold<Platform> const& held = {}) {
    if (!held) {
        bool const there = standing_of<Platform>(s, id) == stream_standing::there;
        if (!there) {
            return is_default_stream<Platform>(s) ? recorded::elsewhere : recorded::lost;
        }
    }
    constexpr int attempts = 4;
    for (int i = 1;; ++i) {
        try {
            if (held.ended()) {
                held.record(e); // the stream has no owner who could capture it
            } else {
                if (Platform::capturing(s)) { return recorded::captured; }
                Platform::record(e, s);
                if (Platform::capturing(s)) { return recorded::captured; }
            }
        } catch (...) {
            if (held.ended() && i < attempts) { continue; } // it has ended since it was looked at
            if (detail::captures<Platform>(s)) { return recorded::captured; } // and it is broken
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

} // namespace vram
