// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_standing` states if a stored stream handle still denotes the same stream.

#include <vram/base/requirements.hpp>

#include <cstdint>
#include <optional> // optional, nullopt

namespace vram {
namespace detail {

/// States if a stored stream handle still denotes the stream for which it was stored, or if that
/// stream was destroyed, or ended by a reset of its device.
enum class stream_standing : unsigned char {
    there,   ///< as far as known, the handle still denotes the stream
    another, ///< the stream was destroyed, and a newer stream has the handle
    ended,   ///< the stream was destroyed
    reset,   ///< the device of the stream was reset, which has ended all work of the stream
};

/// Tells if the stored handle `s` still denotes the stream with the id `id`. Calls
/// `Platform::standing_of` if it exists. Otherwise compares `Platform::id(s)` with `id`, and takes
/// the stream as destroyed if that call throws. It must then be legal at any time, also while
/// another thread captures the stream.
template <class Platform>
[[nodiscard]] stream_standing standing_of(typename Platform::stream s, std::uint64_t id) noexcept {
    if constexpr (requires { Platform::standing_of(s, id); }) {
        return Platform::standing_of(s, id);
    } else {
        try {
            return Platform::id(s) == id ? stream_standing::there : stream_standing::another;
        } catch (...) { return stream_standing::ended; }
    }
}

/// Returns true if it is known that the stream with the stored handle `s` and the id `id` was
/// destroyed by a reset of its device. Returns false on a platform without
/// `Platform::standing_of`, the only function that is called.
template <class Platform>
[[nodiscard]] bool was_reset(typename Platform::stream s, std::uint64_t id) noexcept {
    if constexpr (requires { Platform::standing_of(s, id); }) {
        return Platform::standing_of(s, id) == stream_standing::reset;
    } else {
        return false;
    }
}

/// The id of a stream (no other stream of the process has had it), and the device on which the work
/// of the stream runs.
template <class Platform>
struct stream_identity {
    std::uint64_t             id{};
    typename Platform::device where{};
};

/// Returns the id and the device of the stream `s` by queries to the platform. The calling thread
/// must be using the stream, so that no other thread captures it during the queries.
template <class Platform>
[[nodiscard]] stream_identity<Platform> identify(typename Platform::stream s) {
    return {Platform::id(s), Platform::device_of(s)};
}

/// Returns the id and the device of the stream `s`. Another thread may be using or capturing `s`,
/// so `Platform::recall` is called, which returns values stored earlier, or nothing if there are
/// none. If the platform has no `recall`, `identify` is called.
template <class Platform>
[[nodiscard]] std::optional<stream_identity<Platform>> recall(typename Platform::stream s) {
    if constexpr (requires { Platform::recall(s); }) {
        auto const known = Platform::recall(s);
        if (!known) { return std::nullopt; }
        return stream_identity<Platform>{known->id, known->device};
    } else {
        return identify<Platform>(s);
    }
}

} // namespace detail
} // namespace vram
