// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_default_stream` tells the handles that mean a stream from those that only name one.

namespace vram {

/// Whether the handle is a name such as "the default stream", which means another stream on another
/// thread or device: it must not be kept for later. `Platform::is_default_stream` where there is one, else
/// that of a default-constructed view.
template <class Platform>
[[nodiscard]] bool is_default_stream(typename Platform::stream s) {
    if constexpr (requires { Platform::is_default_stream(s); }) {
        return Platform::is_default_stream(s);
    } else {
        return s == typename Platform::stream{};
    }
}

} // namespace vram
