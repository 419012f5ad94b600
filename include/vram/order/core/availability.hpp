// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `availability` tells if a stream may use free memory at once, after a wait, or not at all.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// When the stream that asks for memory may use a piece of free memory. A search prefers the
/// smallest value. Memory with several pending uses (streams that may still access it) has the
/// largest of their values.
enum class availability : unsigned {
    /// The asking stream may use the memory now: no other stream may still access it, or the asking
    /// stream already waits for those accesses.
    ready,
    /// The asking stream, or the host, must first wait for an event of another stream.
    needs_wait,
    /// The memory may not be used now, and no wait helps: a captured graph, or a capture that is
    /// not over, may use it.
    unavailable,
};

} // namespace detail
} // namespace vram
