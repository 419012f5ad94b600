// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `number_of_stream` is a number that identifies a stream in files.

#include <vram/concepts/platform_of.hpp>

#include <cstdint>

namespace vram {
namespace detail {

/// Returns a number for the stream `s`, for files: the handle if the platform has handles (0 for a
/// default stream), otherwise the id. Returns 0 if there is neither, as for a stream that does not
/// exist any more.
///
/// Failure   Never throws.
/// Threads   Any thread may call.
/// Cost      No call of the platform if it has handles.
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
