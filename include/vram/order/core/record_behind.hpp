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
    /// Nothing is left to wait for: the stream has completed its work, or its device was reset.
    done,
    /// No event can be waited for, because the stream is being captured. A timeline also returns
    /// this value if it has no event left to record.
    captured,
    /// Nothing was recorded, because the handle is that of a default stream. On this thread or
    /// device, the handle denotes a different default stream.
    elsewhere,
    lost,   ///< nothing was recorded: the stream was destroyed or retired
    failed, ///< no event is usable, because an error occurred, which was reported
};

/// Returns true if the result means success: an event was recorded, or the work is complete and
/// needs no event.
[[nodiscard]] constexpr bool stands(recorded how) noexcept {
    return how == recorded::pending || how == recorded::done;
}

/// Called in a `catch` block. Returns true if the caught error means that the stream does not
/// exist. Returns false for other errors, or if the platform cannot tell.
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

/// Records the event `e` behind the work enqueued on the stream `s` so far. Another thread may
/// begin or end a capture of `s` during the call. `id`: the stream's id, by which the call finds
/// out if the handle `s` still denotes this stream. `held`: counted reference that keeps the handle
/// valid, or an empty one.
///
/// Failure   Rethrows errors of the platform.
/// Threads   Any thread may call. One thread at a time may use the event.
/// Streams   The event may also cover work that is enqueued during the call.
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
                // The owner has destroyed the stream. The counted reference `held` can still record
                // an event on it, and a destroyed stream cannot be captured.
                held.record(e);
            } else {
                if (Platform::capturing(s)) { return recorded::captured; }
                Platform::record(e, s);
                // A capture may have begun just before `record`. The event is then part of the
                // captured graph, so the host must not query it or wait for it.
                if (Platform::capturing(s)) { return recorded::captured; }
            }
        } catch (...) {
            // If the owner destroyed the stream during this call, the next attempt records the
            // event with the counted reference `held`, which is still valid.
            if (held.ended() && i < attempts) { continue; }
            // The recording also fails if an error has invalidated a capture of the stream. The
            // stream counts as captured until the program ends this capture.
            if (detail::captures<Platform>(s)) { return recorded::captured; }
            if (!held && detail::names_no_stream<Platform>()) { return recorded::lost; }
            throw;
        }
        try {
            return Platform::done(e) ? recorded::done : recorded::pending;
        } catch (...) {
            // The query of the event fails if a capture has put the event into a graph and has
            // ended since. The event is then recorded again, at most `attempts` times in all.
            if (i == attempts) { throw; }
        }
    }
}

} // namespace detail
} // namespace vram
