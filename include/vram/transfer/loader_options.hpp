// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_options` are the depths, limits and orders of a loader.

#include <vram/base/align.hpp>     // unsatisfiable
#include <vram/base/durations.hpp> // nanoseconds

#include <cstddef> // size_t, byte
#include <cstdint> // uint64_t

namespace vram {

/// Treatment of a batch that is shorter than `batch_bytes`.
enum class last_batch {
    keep, ///< it is delivered with the size that the source returned; sizes may vary
    drop, ///< it is left out, and the loop gets the next batch
    /// It is filled up to `batch_bytes` with `pad_with`; `batch::filled` is the number of bytes
    /// from the source.
    pad,
};

/// Options of a loader. Each has a default that suits most loops.
struct loader_options {
    /// Largest number of bytes of a batch. 0 means the source's `batch_bytes()`, or 4 MiB if the
    /// source has no such function.
    std::size_t batch_bytes = 0;
    /// Number of batches in progress at once. 2 overlap filling, copying and using. More than 2
    /// only even out varying times. 1 overlaps only filling and using. 0 fills each batch on the
    /// consumer's thread, which helps to debug a source.
    std::size_t depth = 2;
    /// Number of threads that fill batches, each a different batch. More than one need a source
    /// that receives the index of the batch; any other source is filled by one thread.
    std::size_t producers = 1;
    /// Number of pinned blocks. A pinned block is free again once its copy to the device is
    /// complete. 0 means `depth`, plus one for each producer after the first.
    std::size_t pinned_depth = 0;
    /// Number of device blocks. A device block is free again once the streams that use its batch
    /// are done. 0 means `depth`.
    std::size_t device_depth = 0;
    /// If true, batches come in the order of their indices. If false, batches come in the order in
    /// which they are filled.
    bool ordered = true;
    /// Treatment of a batch that is shorter than `batch_bytes`.
    last_batch last = last_batch::keep;
    /// Value of the bytes with which `last_batch::pad` fills a short batch.
    std::byte pad_with = {};
    /// If true, the source is asked for its indices in a random order drawn from `seed` and the
    /// number of the epoch. The source must have `size()`. The order does not depend on the machine
    /// or the standard library.
    bool shuffle = false;
    /// Seed of the shuffled order.
    std::uint64_t seed = 0;
    /// Index of this loader among `shards` loaders that share one source, for example one loader
    /// per device or process. A shard gets the batches `shard`, `shard + shards`, ... of the order
    /// (the shuffled one, if `shuffle` is set). With `last_batch::drop` and a source with `size()`,
    /// all shards have equally many batches.
    std::size_t shard = 0;
    /// Number of loaders that share the source.
    std::size_t shards = 1;
    /// Largest number of pinned and device bytes together. The loader checks it before it
    /// allocates.
    std::size_t budget = unsatisfiable;
    /// Longest time to wait for a batch. After it, the loop gets `loader_error{timed_out}` with the
    /// state of every slot. 0 means no limit. On the simulated device the time is virtual; if a
    /// source really blocks, it is real time of at least 200 ms.
    std::chrono::nanoseconds timeout{0};
    /// If true, pageable memory is used for a block if no more memory can be pinned.
    /// `loader_statistics::pageable` counts such blocks.
    bool pageable_fallback = false;
    /// If true, pinned memory is allocated and filled on the NUMA node of the device, if the
    /// platform supports it.
    bool numa_local = false;
    /// Priority of the loader's own copy stream, if the platform has priorities. Lower is more
    /// urgent. Ignored if the caller supplied the copy stream.
    int priority = 0;
    /// If true, the end of a copy calls a host function, so that no thread waits for the copy. If
    /// false, the producer that fills the pinned block next waits for the copy's event.
    bool call_back = true;
    /// If true, and `call_back` is true, a copy sets a completion flag in pinned memory instead of
    /// calling a host function, if the device supports it. A producer that has nothing else to do
    /// polls the flag. Small batches are twice as fast this way.
    bool completion_flags = true;
    /// If true, pinned blocks are overwritten after their copy, and device blocks after their
    /// release, so that a use that comes too late reads garbage instead of plausible data.
    bool checker = false;
    /// If true, the device measures the times of copies and uses for `loader_statistics`.
    bool timing = false;
};

} // namespace vram
