// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_options` are the depths, limits and orders of a loader.

#include <vram/base/align.hpp>          // unsatisfiable
#include <vram/base/core/durations.hpp> // nanoseconds

#include <cstddef>
#include <cstdint>

namespace vram {

/// Selects the treatment of a short batch: one with fewer bytes than `loader_options::batch_bytes`
/// or the source's `batch_bytes()`, whichever is less. A source with `is_short(index)` decides
/// itself which batches `drop` leaves out.
enum class last_batch {
    keep, ///< the loop gets the short batch, with the size that the source returned
    drop, ///< the short batch is left out; the loop gets the next batch instead
    /// The short batch is filled up to `loader_options::batch_bytes` with `pad_with`.
    /// `batch::filled()` returns the number of bytes from the source.
    pad,
};

/// Options of a loader. Each has a default that suits most loops.
struct loader_options {
    /// Largest number of bytes of a batch. 0 means the source's `batch_bytes()`, or 4 MiB if the
    /// source has no such function.
    std::size_t batch_bytes = 0;
    /// Number of batches in progress at the same time. 2 overlaps filling, copying and using. 0
    /// fills each batch on the loop's thread.
    std::size_t depth = 2;
    /// Number of threads that fill batches, at most `pinned_depth`. Only one is used for a source
    /// that must not be called concurrently.
    std::size_t producers = 1;
    /// Number of pinned blocks; 0 means `depth`, plus one for each producer after the first.
    /// Ignored if `depth` is 0.
    std::size_t pinned_depth = 0;
    /// Number of device blocks; 0 means `depth`. A block is free again once its batch is released.
    /// Ignored if `depth` is 0.
    std::size_t device_depth = 0;
    /// If true, the loop gets batches in the order of `batch::index()`, otherwise in the order in
    /// which they are filled.
    bool ordered = true;
    /// Treatment of a short batch (see `last_batch`).
    last_batch last = last_batch::keep;
    /// Value of the bytes with which `last_batch::pad` fills a short batch.
    std::byte pad_with = {};
    /// If true, batches are requested in a random order, which depends on `seed` and the pass over
    /// the source. The source must have `size()`.
    bool shuffle = false;
    /// Seed of the shuffled order.
    std::uint64_t seed = 0;
    /// Index of this loader among `shards` loaders that share one source. The loader gets the
    /// batches `shard`, `shard + shards`, ... of the order.
    std::size_t shard = 0;
    /// Number of loaders that share the source. Each gets every `shards`-th batch, beginning with
    /// the batch at position `shard`.
    std::size_t shards = 1;
    /// Largest sum of pinned and device memory in bytes; no limit by default. If more is needed,
    /// the constructor throws `over_limit` before it allocates.
    std::size_t budget = unsatisfiable;
    /// Longest time that the loop waits for a batch; 0 means no limit. After this time, the loop
    /// throws `loader_error{timed_out}`.
    std::chrono::nanoseconds timeout{0};
    /// If true, pageable memory is used for a block if no more memory can be pinned.
    /// `loader_statistics::pageable` counts such blocks.
    bool pageable_fallback = false;
    /// If true, pinned memory is allocated on the NUMA node of the device, and the producers run on
    /// this node. Has no effect if the node is unknown.
    bool numa_local = false;
    /// Priority of the loader's own copy stream, if the platform has priorities. Lower is more
    /// urgent.
    int priority = 0;
    /// If true, a callback or a completion flag reports the end of each copy. If false, the thread
    /// that refills a pinned block waits for the event of the block's last copy.
    bool call_back = true;
    /// If true, the device reports the end of a copy by a flag in pinned memory where possible,
    /// instead of calling a host function.
    bool completion_flags = true;
    /// If true, blocks are overwritten with 0xFF before a fill and after a release, so that late
    /// accesses read wrong values.
    bool checker = false;
    /// If true, timed events measure how long batches are copied and used: `copy_ns`, `use_ns` and
    /// `verdict()` of `loader_statistics`.
    bool timing = false;
};

} // namespace vram
