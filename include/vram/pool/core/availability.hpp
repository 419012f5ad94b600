// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `availability` tells if a stream may use free memory at once, after a wait, or not at all.

#include <vram/base/requirements.hpp> // C++20

namespace vram {
namespace detail {

/// When the stream that asks may use a piece of free memory. The order is part of the meaning: a
/// search keeps the smallest value, and memory with several pending uses has the largest of theirs.
enum class availability : unsigned {
    ready,       ///< at once: no other stream has a pending use of it
    needs_wait,  ///< if the stream, or the host, waits for an event of another stream
    unavailable, ///< not now: a captured graph, or a capture that is not over, may use it
};

} // namespace detail
} // namespace vram
