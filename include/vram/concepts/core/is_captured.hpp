// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_captured` tells if the stream of a request is being captured.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if `on` points to a stream that is being captured; false if `on` is null. During a
/// capture, the caller must not query events, and must not make the host or the stream wait for
/// work outside of the capture.
template <class Platform>
[[nodiscard]] bool is_captured(typename Platform::stream const* on) {
    return on != nullptr && Platform::capturing(*on);
}

} // namespace detail
} // namespace vram
