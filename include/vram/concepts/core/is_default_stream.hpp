// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_default_stream` recognises the handles of default streams.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if `s` is the handle of a default stream. Such a handle may denote another stream
/// on another thread or device.
template <class Platform>
[[nodiscard]] bool is_default_stream(typename Platform::stream s) {
    if constexpr (requires { Platform::is_default_stream(s); }) {
        return Platform::is_default_stream(s);
    } else {
        return s == typename Platform::stream{};
    }
}

} // namespace detail
} // namespace vram
