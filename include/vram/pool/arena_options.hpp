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
    /// Largest number of shards (pools of the arena), rounded up to a power of two, at most 64. 0:
    /// one more than hardware threads.
    unsigned count = 0;
    /// Selects the shard (pool) for a request: by thread or by stream.
    arena_key key = arena_key::thread;
    /// Selects when an event is recorded on the stream that freed memory: when another stream needs
    /// the memory (`lazy`), or with every free (`eager`).
    event_policy events = event_policy::lazy;
    /// Allows streams to be captured into graphs while they use the arena. Until `forget_captures`,
    /// memory freed during a capture serves only captures of the same stream.
    bool graphs = false;
    /// If the reserved bytes of all shards (pools) together rise above this number, the shards
    /// return unused chunks to the upstream, so that other shards can use the memory. If they stay
    /// above it, they do so again after a growth by a quarter. An unused chunk has no live block,
    /// and no stream may still access it.
    std::size_t trim_above = 1_GiB;
};

} // namespace vram
