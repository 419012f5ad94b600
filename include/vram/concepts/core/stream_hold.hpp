// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_hold` is a reference that keeps a stream's handle valid after its owner was destroyed.

#include <vram/base/requirements.hpp>

#include <concepts> // same_as
#include <cstdint>

namespace vram {
namespace detail {

/// A platform that tells when the owner of a stream was destroyed. `P::hold(s)` returns a hold (a
/// counted reference) of the stream `s`: while a copy of the hold exists, no other stream gets the
/// handle of `s`. `held.ended()` returns true after the owner of the stream was destroyed.
/// `held.record(event)` may be called even then. `P::ends()` returns the number of owners destroyed
/// so far.
template <class P>
concept announces_ends =
    requires(typename P::stream s, typename P::event& e, typename P::stream_hold const& held) {
        { P::hold(s) } noexcept -> std::same_as<typename P::stream_hold>;
        { static_cast<bool>(held) } noexcept;
        { held.ended() } noexcept -> std::same_as<bool>;
        held.record(e);
        { P::ends() } noexcept -> std::same_as<std::uint64_t>;
    };

/// A hold (a counted reference to a stream) for platforms that do not tell when a stream is
/// destroyed (see `announces_ends`). A `no_stream_hold` is always empty: it refers to no stream.
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

/// The type of a platform's holds: counted references that keep a stream's handle valid.
template <class Platform>
using stream_hold = typename detail::find_stream_hold<Platform>::type;

/// Returns a hold of the stream `s`: a reference that keeps the handle of the stream valid. The
/// hold is empty if the platform cannot hold the stream.
template <class Platform>
[[nodiscard]] stream_hold<Platform> hold_stream([[maybe_unused]]
                                                typename Platform::stream s) noexcept {
    if constexpr (announces_ends<Platform>) {
        return Platform::hold(s);
    } else {
        return {};
    }
}

} // namespace detail
} // namespace vram
