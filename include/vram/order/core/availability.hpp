// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `availability` tells if a stream may use free memory at once, after a wait, or not at all.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// Tells if the stream that requests memory may use a piece of free memory now, after a wait, or
/// not at all. A search prefers a smaller value. Memory with several pending uses (streams that may
/// still access it) has the largest of their values.
enum class availability : unsigned {
    /// The asking stream may use the memory now: no other stream may still access it, or the asking
    /// stream already waits for those accesses.
    ready,
    /// The asking stream, or the host, must first wait for an event of another stream.
    needs_wait,
    /// The memory may not be used now, and no wait helps: a captured graph, or a capture in
    /// progress, may use it, or the asking stream is itself being captured and may not wait.
    unavailable,
};

} // namespace detail
} // namespace vram
