// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `availability` tells if a stream may use free memory at once, after a wait, or not at all.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Tells if a stream may use a piece of free memory now, after a wait, or not at all. A smaller
/// value is better.
enum class availability : unsigned {
    /// The stream may use the memory now: every other access to the memory is complete or happens
    /// before the stream's next operation.
    ready,
    /// The asking stream, or the host, must first wait for an event of another stream.
    needs_wait,
    /// The memory may not be used even after a wait. Either a captured graph may use it, or a
    /// capture of the asking stream or of the freeing stream makes a wait impossible.
    unavailable,
};

} // namespace detail
} // namespace vram
