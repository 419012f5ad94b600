// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_options` are the depths, limits and orders of a loader.

#include <vram/base/align.hpp> // unsatisfiable

#include <chrono>  // nanoseconds
#include <cstddef> // size_t, byte
#include <cstdint> // uint64_t

namespace vram {

/// What becomes of a batch that is shorter than `batch_bytes`.
enum class last_batch {
    keep, ///< it has the size that the source said; sizes may vary
    drop, ///< it is left out, and the next one follows
    pad,  ///< bytes that the source did not write are `pad_with`; `batch::filled` is its size
};

/// Everything has a default that suits most loops.
struct loader_options {
    /// Bytes that a batch has at most. 0: what the source says by `batch_bytes()`, else 4 MiB.
    std::size_t batch_bytes = 0;
    /// Batches on their way: 2 overlap producing, copying and using; more only even out what
    /// varies; 1 overlaps nothing but producing and using; 0 produces in the consumer's thread, to
    /// be debugged.
    std::size_t depth = 2;
    /// Threads that fill, each another batch. More than one need a source that is told the index;
    /// any other is filled by one.
    std::size_t producers = 1;
    /// Pinned blocks, free again once their copy is over. 0: `depth`, and one more for each further
    /// producer.
    std::size_t pinned_depth = 0;
    /// Device blocks, free again once their users are done. 0: `depth`.
    std::size_t device_depth = 0;
    /// Whether batches come in the order of their indices, or as they are filled.
    bool       ordered  = true;
    last_batch last     = last_batch::keep;
    std::byte  pad_with = {};
    /// Whether indices are asked for in an order drawn from `seed` and the epoch, for sources that
    /// say how many there are: the same on every machine and with every standard library.
    bool          shuffle = false;
    std::uint64_t seed    = 0;
    /// This loader's of `shards` parts of the source, for one on each device, or in each process:
    /// of the order that `seed` draws, or that of the indices, the batches `shard`, `shard +
    /// shards`, ... With `last_batch::drop` all shards of a source with a size have equally many.
    std::size_t shard  = 0;
    std::size_t shards = 1;
    /// Pinned and device bytes that may be taken together; checked before anything is.
    std::size_t budget = unsatisfiable;
    /// How long to wait for a batch before `loader_error{timed_out}` says what every slot does. 0:
    /// as long as it takes. On the simulated device it is virtual time; if a source really blocks,
    /// it is real time, at least 200 ms.
    std::chrono::nanoseconds timeout{0};
    /// Whether pageable memory will do where no more can be pinned; the statistics count it.
    bool pageable_fallback = false;
    /// Whether pinned memory is taken, and filled, near the device, where the platform knows how.
    bool numa_local = false;
    /// Of the stream that carries the copies, where it is the loader's own and the platform has
    /// priorities: lower is more urgent.
    int priority = 0;
    /// Whether the end of a copy calls back, so that no thread waits for it; else the producer
    /// waits for the copy's event.
    bool call_back = true;
    /// Where it calls back: whether it rather leaves a mark in pinned memory, if the device can. A
    /// producer that has nothing else to do looks there. Small batches are twice as fast so.
    bool completion_flags = true;
    /// Whether pinned blocks are overwritten after their copy, and device blocks after their
    /// release, so that who uses them too late sees it.
    bool checker = false;
    /// Whether copying and using are timed on the device, for `loader_statistics`.
    bool timing = false;
};

} // namespace vram
