// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_key` selects the shard of an arena for a request: by thread or by stream.

#include <vram/base/requirements.hpp>

namespace vram {

/// Selects the shard (pool) of an `arena` that serves a request.
enum class arena_key {
    /// Each thread has its own shard. Suits programs in which each thread has its own streams.
    thread,
    /// Each stream has its own shard. Suits programs in which threads share streams. A request
    /// without a stream uses the thread's shard.
    stream,
};

} // namespace vram
