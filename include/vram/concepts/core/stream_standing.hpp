// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_standing` states if a stored stream handle still denotes the same stream.

#include <vram/base/requirements.hpp>

#include <cstdint>
#include <optional> // optional, nullopt

namespace vram {
namespace detail {

/// The state of a stored stream handle: the handle still denotes the stream, the stream was
/// destroyed, or the device of the stream was reset.
enum class stream_standing : unsigned char {
    there,   ///< the handle still denotes the stream, as far as the platform knows
    another, ///< the stream was destroyed, and the handle now denotes a newer stream
    ended,   ///< the stream was destroyed
    reset,   ///< the device of the stream was reset, which has ended all work of the stream
};

/// Tells if the stored handle `s` still denotes the stream with the id `id`. The stream may be
/// destroyed.
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

/// Returns true if the stream with the handle `s` and the id `id` is known to be destroyed by a
/// reset of its device.
template <class Platform>
[[nodiscard]] bool was_reset(typename Platform::stream s, std::uint64_t id) noexcept {
    if constexpr (requires { Platform::standing_of(s, id); }) {
        return Platform::standing_of(s, id) == stream_standing::reset;
    } else {
        return false;
    }
}

/// The id of a stream, which is unique in the process, and the device on which the stream runs.
template <class Platform>
struct stream_identity {
    std::uint64_t             id{};
    typename Platform::device where{};
};

/// Queries the id and the device of `s`. The caller must ensure that no other thread captures the
/// stream meanwhile, since a query may invalidate the capture.
template <class Platform>
[[nodiscard]] stream_identity<Platform> identify(typename Platform::stream s) {
    return {Platform::id(s), Platform::device_of(s)};
}

/// Returns the id and the device of the stream `s` as the platform stored them. Returns nothing if
/// the platform did not store them. If the platform has no function `recall`, queries both instead,
/// which could invalidate a capture of `s` by another thread.
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
