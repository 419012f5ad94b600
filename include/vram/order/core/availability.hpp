// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `availability` tells if a stream may use free memory at once, after a wait, or not at all.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

/// When the stream that asks may use a piece of free memory. A search for memory prefers the
/// smallest value; memory with several pending uses (streams that may still access it) has the
/// largest of their values.
enum class availability : unsigned {
    /// Now: no other stream may still access the memory, or the asking stream already waits for it.
    ready,
    /// After the stream that asks, or the host, has waited for an event of another stream.
    needs_wait,
    /// Not now, and no wait helps: a captured graph, or a capture that is not over, may use it.
    unavailable,
};

} // namespace detail
} // namespace vram
