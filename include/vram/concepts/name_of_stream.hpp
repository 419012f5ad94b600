// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `name_of_stream` is how a message names a stream.

#include <vram/base/error_kind.hpp>            // stream_name
#include <vram/concepts/is_default_stream.hpp> // is_default_stream

#include <cstdint> // uintptr_t

namespace vram {

/// Returns the handle if the platform has names (`Platform::name`), else the id; unknown if the
/// platform cannot say.
///
/// Failure   never throws
/// Threads   any
/// Cost      of a platform with names: no call
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

/// The same of a stream that had this id; the handle may mean another by now.
template <class Platform>
[[nodiscard]] stream_name name_of_stream(typename Platform::stream s, std::uint64_t id) noexcept {
    stream_name found = name_of_stream<Platform>(s);
    if (found.handle == nullptr && !found.is_default) { found.id = id; }
    return found;
}

} // namespace vram
