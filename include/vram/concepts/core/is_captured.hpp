// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `is_captured` tells if the stream of a request is being captured.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Returns true if the stream `on` is being captured, false for null. A captured stream must not
/// wait or query.
template <class Platform>
[[nodiscard]] bool is_captured(typename Platform::stream const* on) {
    return on != nullptr && Platform::capturing(*on);
}

} // namespace detail
} // namespace vram
