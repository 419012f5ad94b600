// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_key` selects the shard of an arena for a request: by thread or by stream.

#include <vram/base/requirements.hpp>

namespace vram {

/// Selects the shard (pool) of an `arena` that serves a request.
enum class arena_key {
    /// A request goes to the shard (pool) of the calling thread. Suits programs in which each
    /// thread has its own streams.
    thread,
    /// A request goes to the shard (pool) of its stream; without a stream, to that of the calling
    /// thread. Suits programs in which threads share streams.
    stream,
};

} // namespace vram
