// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `number_of_stream` is a number that identifies a stream in files.

#include <vram/concepts/platform_of.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// Returns a number of the stream `s` for files: the handle (0 for a default stream), or else the
/// id, or else 0.
template <class Stream>
[[nodiscard]] std::uint64_t number_of_stream(Stream const& s) noexcept {
    if constexpr (requires { platform_of<Stream>::name(s); }) {
        return static_cast<std::uint64_t>(platform_of<Stream>::name(s));
    } else if constexpr (requires { platform_of<Stream>::id(s); }) {
        try {
            return platform_of<Stream>::id(s);
        } catch (...) { return 0; }
    } else {
        return 0;
    }
}

} // namespace detail
} // namespace vram
