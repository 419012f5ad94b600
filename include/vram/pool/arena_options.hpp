// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_options` are the options of an `arena`.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/base/bytes.hpp>        // literals
#include <vram/pool/arena_key.hpp>    // arena_key
#include <vram/pool/event_policy.hpp> // event_policy

#include <cstddef> // size_t

namespace vram {

/// The options of an `arena`. The defaults suit a process that has a device to itself.
struct arena_options {
    /// Largest number of bytes that all shards together reserve.
    std::size_t max_size = unsatisfiable;
    /// The largest number of shards, rounded up to a power of two. 0 means one more than the number
    /// of hardware threads, at most 64. Each shard is created when it is first used.
    unsigned     count  = 0;
    arena_key    key    = arena_key::thread;  ///< selects the shard of a request
    event_policy events = event_policy::lazy; ///< same meaning as in `pool_options`
    bool         graphs = false;              ///< same meaning as in `pool_options`
    /// If more bytes than this are reserved, all shards return their idle chunks that no stream
    /// uses, so that other shards can use the memory. It is repeated whenever the reserved bytes
    /// have grown by a quarter since. Over a pool this costs bookkeeping only. Over device memory
    /// each returned chunk is a driver call, which may wait.
    std::size_t trim_above = 1_GiB;
};

} // namespace vram
