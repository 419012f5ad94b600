// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_standing` is the present meaning of a stored stream handle.

#include <vram/base/requirements.hpp> // C++20

#include <cstdint>  // uint64_t
#include <optional> // optional, nullopt

namespace vram {

/// Present meaning of a stored stream handle, on the calling thread.
enum class stream_standing : unsigned char {
    there,   ///< still the stream for which it was stored, as far as known
    another, ///< another stream, which CUDA gave the handle
    ended,   ///< no stream: it was destroyed
    reset,   ///< no stream: its device was reset, which has ended all work of the stream
};

/// Returns the present meaning of the handle `s` that belonged to the stream with the id `id`.
/// Calls `Platform::standing_of` if it exists. Otherwise it queries the id of `s`, which must then
/// be legal at any time, also while another thread captures the stream.
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

/// Returns true if it is known that the stream ended because its device was reset. Makes no call of
/// the platform except `Platform::standing_of`.
template <class Platform>
[[nodiscard]] bool was_reset(typename Platform::stream s, std::uint64_t id) noexcept {
    if constexpr (requires { Platform::standing_of(s, id); }) {
        return Platform::standing_of(s, id) == stream_standing::reset;
    } else {
        return false;
    }
}

/// The id of a stream, and the device on which its work runs.
template <class Platform>
struct stream_identity {
    std::uint64_t             id{};
    typename Platform::device where{};
};

/// Returns the identity of a stream by queries to the platform. The calling thread must be using
/// the stream, so that no other thread captures it during the call.
template <class Platform>
[[nodiscard]] stream_identity<Platform> identify(typename Platform::stream s) {
    return {Platform::id(s), Platform::device_of(s)};
}

/// Returns the identity of a stream that another thread may use, or nothing if it is not known.
/// Calls `Platform::recall` if it exists, and otherwise `identify`.
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

} // namespace vram
