// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `name_of_stream` is the name of a stream in a message.

#include <vram/base/error_kind.hpp>            // stream_name
#include <vram/concepts/is_default_stream.hpp> // is_default_stream

#include <cstdint> // uintptr_t

namespace vram {

/// Returns the handle of the stream if the platform has `Platform::name`, otherwise its id. Returns
/// an unknown name if the platform fails.
///
/// Failure   Never throws.
/// Threads   Any thread may call.
/// Cost      No call of the platform if it has `Platform::name`.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s) noexcept {
    stream_name found{.is_default = is_default_stream<Platform>(s)};
    if constexpr (requires { Platform::name(s); }) {
        // No call of the platform: the stream may be captured by another thread now.
        found.handle =
            reinterpret_cast<void const*>(static_cast<std::uintptr_t>(Platform::name(s)));
    } else if (!found.is_default) {
        try {
            found.id = Platform::id(s);
        } catch (...) {} // a stream that was destroyed
    }
    return found;
}

/// Returns the name of a stream that had the id `id`. Its handle may mean another stream now.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s, std::uint64_t id) noexcept {
    stream_name found = name_of_stream<Platform>(s);
    if (found.handle == nullptr && !found.is_default) { found.id = id; }
    return found;
}

} // namespace vram
