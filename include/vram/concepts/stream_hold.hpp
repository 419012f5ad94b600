// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_hold` keeps the handle of a stream valid after the owner of the stream has destroyed it.

#include <vram/base/requirements.hpp> // C++20

#include <concepts> // same_as
#include <cstdint>  // uint64_t

namespace vram {

/// A platform that announces the end of its own streams. `P::hold(s)` returns a hold on a stream
/// that the calling thread uses, or an empty hold if the end of the stream will not be announced.
/// As long as a copy of the hold exists, the platform does not destroy the stream, and no other
/// stream has its handle. `ended()` returns true after the owner has destroyed the stream;
/// `record(event)` is legal even then. `P::ends()` is the number of streams that have ended, and
/// never decreases.
template <class P>
concept announces_ends =
    requires(typename P::stream s, typename P::event& e, typename P::stream_hold const& held) {
        { P::hold(s) } noexcept -> std::same_as<typename P::stream_hold>;
        { static_cast<bool>(held) } noexcept;
        { held.ended() } noexcept -> std::same_as<bool>;
        held.record(e);
        { P::ends() } noexcept -> std::same_as<std::uint64_t>;
    };

namespace detail {

/// The hold of a platform that does not announce the end of streams. It is always empty.
struct no_stream_hold {
    explicit operator bool() const noexcept { return false; }
    bool     ended() const noexcept { return false; }
    template <class Event>
    void record(Event&) const noexcept {}
};

template <class Platform>
struct find_stream_hold {
    using type = no_stream_hold;
};
template <announces_ends Platform>
struct find_stream_hold<Platform> {
    using type = typename Platform::stream_hold;
};

} // namespace detail

/// Type of the holds of a platform.
template <class Platform>
using stream_hold = typename detail::find_stream_hold<Platform>::type;

/// Returns a hold on a stream that the calling thread uses, or an empty one if its end will not be
/// announced.
template <class Platform>
[[nodiscard]] stream_hold<Platform> hold_stream([[maybe_unused]]
                                                typename Platform::stream s) noexcept {
    if constexpr (announces_ends<Platform>) {
        return Platform::hold(s);
    } else {
        return {};
    }
}

} // namespace vram
