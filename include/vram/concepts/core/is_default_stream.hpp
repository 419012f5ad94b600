// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_default_stream` recognises the handles of default streams.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if the handle `s` denotes a default stream. On another thread or device the same
/// handle may denote a different stream, so it must not be stored and used later. Calls
/// `Platform::is_default_stream` if it exists; otherwise only a default-constructed `stream` is
/// one.
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
