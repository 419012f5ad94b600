// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `stream_standing` says what the handle of a stream that was kept for later means now.

#include <vram/base/requirements.hpp> // C++20

#include <cstdint>  // uint64_t
#include <optional> // optional, nullopt

namespace vram {

/// What a handle that meant a certain stream means now, on the calling thread.
enum class stream_standing : unsigned char {
    there,   ///< the same stream, as far as is known
    another, ///< another stream
    ended,   ///< no stream
    reset,   ///< no stream: its device was reset, which has ended all work of the stream
};

/// Returns what the handle `s` of the stream `id` means now. Asks `Platform::standing_of` if there
/// is one. Else it asks for the id of `s`; then that question must be legal at any moment, also
/// while another thread captures the stream.
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
/// the platform beside `Platform::standing_of`.
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

/// Returns the identity of a stream by questions to the platform. The calling thread uses the
/// stream, so no other thread captures it during the call.
template <class Platform>
[[nodiscard]] stream_identity<Platform> identify(typename Platform::stream s) {
    return {Platform::id(s), Platform::device_of(s)};
}

/// Returns the identity of a stream that another thread may use, or nothing if it is not known.
/// Asks `Platform::recall` if there is one, else as `identify`.
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
