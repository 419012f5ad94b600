// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `name_of_stream` is the name of a stream in a message.

#include <vram/base/error_kind.hpp> // stream_name
#include <vram/concepts/core/is_default_stream.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// Returns the name of the stream `s` for an error message; unknown if the platform cannot tell.
/// Never throws.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s) noexcept {
    stream_name found{.is_default = is_default_stream<Platform>(s)};
    if constexpr (requires { Platform::name(s); }) {
        // Calls `Platform::name`, which makes no call of the device API. `Platform::id` makes one,
        // which could invalidate a capture of the stream.
        found.handle =
            reinterpret_cast<void const*>(static_cast<std::uintptr_t>(Platform::name(s)));
    } else if (!found.is_default) {
        try {
            found.id = Platform::id(s);
        } catch (...) {} // the stream was destroyed; its name stays unknown
    }
    return found;
}

/// Returns the name of a stream for an error message. `s` and `id`: handle and id of the stream, as
/// stored earlier. The stream may be destroyed by now.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s, std::uint64_t id) noexcept {
    stream_name found = name_of_stream<Platform>(s);
    if (found.handle == nullptr && !found.is_default) { found.id = id; }
    return found;
}

} // namespace detail
} // namespace vram
