// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `name_of_stream` is the name of a stream in a message.

#include <vram/base/error_kind.hpp> // stream_name
#include <vram/concepts/core/is_default_stream.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// Returns the name of the stream `s` for an error message: the handle if `Platform::name` exists,
/// otherwise the id, or only that `s` is a default stream. If the platform fails to return the id,
/// because the stream was destroyed, the name is unknown.
///
/// Failure   Never throws.
/// Threads   Any thread may call.
/// Cost      No call of the platform if it has `Platform::name`.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s) noexcept {
    stream_name found{.is_default = is_default_stream<Platform>(s)};
    if constexpr (requires { Platform::name(s); }) {
        // `Platform::name` makes no call of the device API: such a call could invalidate a capture
        // of the stream.
        found.handle =
            reinterpret_cast<void const*>(static_cast<std::uintptr_t>(Platform::name(s)));
    } else if (!found.is_default) {
        try {
            found.id = Platform::id(s);
        } catch (...) {} // the stream was destroyed; its name stays unknown
    }
    return found;
}

/// Returns the name, for an error message, of a stream that had the id `id` when its handle `s` was
/// stored: the handle, or, on a platform without `Platform::name`, the stored id, because a newer
/// stream may have the handle by now.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s, std::uint64_t id) noexcept {
    stream_name found = name_of_stream<Platform>(s);
    if (found.handle == nullptr && !found.is_default) { found.id = id; }
    return found;
}

} // namespace detail
} // namespace vram
