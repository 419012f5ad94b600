// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_key` selects the shard of an arena for a request: by thread or by stream.

#include <vram/base/requirements.hpp>

namespace vram {

/// Selects the shard (pool) of an `arena` that serves a request.
enum class arena_key {
    /// A request is served by the shard (pool) of the calling thread, so that threads do not
    /// contend for locks. Suits programs in which each thread has its own streams.
    thread,
    /// A request is served by the shard (pool) of its stream, so that streams do not wait for each
    /// other's memory. Suits programs in which one thread feeds many streams, or any thread uses
    /// any stream. A request without a stream goes to the shard of the thread.
    stream,
};

} // namespace vram
