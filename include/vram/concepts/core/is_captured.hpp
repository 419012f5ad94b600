// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_captured` tells if the stream of a request is being captured.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if the stream `on` is being captured. Returns false for null, which stands for a
/// request without a stream. A stream that is being captured must neither wait nor query, and no
/// host thread may wait for it.
///
/// Failure   Errors of the platform are rethrown.
/// Threads   Any thread may call.
/// Cost      One call of the platform.
template <class Platform>
[[nodiscard]] bool is_captured(typename Platform::stream const* on) {
    return on != nullptr && Platform::capturing(*on);
}

} // namespace detail
} // namespace vram
