// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `arena_options` are the options of an `arena`.

#include <vram/base/align.hpp> // unsatisfiable
#include <vram/base/bytes.hpp> // literals
#include <vram/pool/arena_key.hpp>
#include <vram/pool/event_policy.hpp>

#include <cstddef>

namespace vram {

/// The options of an `arena`. The defaults suit a process that has a device to itself.
struct arena_options {
    /// Largest number of bytes that all shards (pools of the arena) together reserve.
    std::size_t max_size = unsatisfiable;
    /// The largest number of shards (pools of the arena), at most 64, rounded up to a power of two.
    /// If it is 0, there is one more than hardware threads, rounded up as well, and at most 64. A
    /// shard is created at first use.
    unsigned count = 0;
    /// Selects the shard (pool) for a request: by thread or by stream.
    arena_key key = arena_key::thread;
    /// Selects when events are recorded behind freed memory: when another stream needs the memory
    /// (`lazy`), or with every free (`eager`).
    event_policy events = event_policy::lazy;
    /// Allows streams to be captured into graphs while they use the arena (`pool_options::graphs`).
    bool graphs = false;
    /// If more bytes than this are reserved, all shards (pools) return their idle chunks that no
    /// stream uses, so that other shards can use the memory. This is repeated whenever the reserved
    /// bytes have grown by a quarter since the last time. Over a pool this costs bookkeeping only.
    /// Over device memory each returned chunk is a driver call, which may wait.
    std::size_t trim_above = 1_GiB;
};

} // namespace vram
