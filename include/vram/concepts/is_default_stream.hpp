// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_default_stream` recognises the handles of default streams.

#include <vram/base/requirements.hpp> // C++20

namespace vram {

/// Returns true if the handle denotes a default stream. Such a handle denotes a different stream on
/// another thread or device, so it must not be stored and used later. Calls
/// `Platform::is_default_stream` if it exists; otherwise only a default-constructed view is one.
template <class Platform>
[[nodiscard]] bool is_default_stream(typename Platform::stream s) {
    if constexpr (requires { Platform::is_default_stream(s); }) {
        return Platform::is_default_stream(s);
    } else {
        return s == typename Platform::stream{};
    }
}

} // namespace vram
