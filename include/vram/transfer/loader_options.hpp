// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_options` are the depths, limits and orders of a loader.

#include <vram/base/align.hpp>          // unsatisfiable
#include <vram/base/core/durations.hpp> // nanoseconds

#include <cstddef>
#include <cstdint>

namespace vram {

/// Selects the treatment of a short batch: one with fewer bytes than a full batch. A full batch has
/// `loader_options::batch_bytes` bytes, or as many as the source's `batch_bytes()` if the source
/// has this function and the number is smaller. If the source has a function `is_short(index)`, as
/// sources of tiles have, its result decides instead which batches `drop` leaves out.
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
    /// Number of batches in progress at the same time. 2 overlap filling, copying and using; more
    /// than 2 only even out varying times. 1 overlaps filling and using. 0 fills each batch on the
    /// thread of the loop, which helps to debug a source.
    std::size_t depth = 2;
    /// Number of threads that fill batches, each another batch; at most `pinned_depth` are used.
    /// Only one is used if the source does not receive the index of the batch, or enqueues its own
    /// copies.
    std::size_t producers = 1;
    /// Number of pinned blocks. A pinned block is free again once its copy to the device is
    /// complete. 0 means `depth`, plus one for each producer after the first. Ignored if `depth` is
    /// 0, or if the source enqueues its own copies.
    std::size_t pinned_depth = 0;
    /// Number of device blocks; 0 means `depth`. A device block is free again once its batch is
    /// released; on the device, the next copy into it waits for the streams that use the batch.
    /// Ignored if `depth` is 0: one block is used then.
    std::size_t device_depth = 0;
    /// If true, the loop gets batches in the order of `batch::index()`. If false, it gets them in
    /// the order in which they are filled.
    bool ordered = true;
    /// Treatment of a short batch (see `last_batch`).
    last_batch last = last_batch::keep;
    /// Value of the bytes with which `last_batch::pad` fills a short batch.
    std::byte pad_with = {};
    /// If true, the batches are requested from the source in a random order. It depends on `seed`,
    /// the number of batches and the number of the pass over the source (epoch), but not on the
    /// machine or the standard library. The source must have `size()`.
    bool shuffle = false;
    /// Seed of the shuffled order.
    std::uint64_t seed = 0;
    /// Index of this loader among `shards` loaders that share one source, for example one loader
    /// per device or process. The loader gets the batches `shard`, `shard + shards`, ... of the
    /// (possibly shuffled) order. With `last_batch::drop` and a source with `size()`, all these
    /// loaders get equally many batches.
    std::size_t shard = 0;
    /// Number of loaders that share the source. Each gets every `shards`-th batch, beginning with
    /// the batch at position `shard`.
    std::size_t shards = 1;
    /// Largest sum of pinned and device memory in bytes; the default means no limit. If the loader
    /// needs more, its constructor throws `over_limit` before it allocates.
    std::size_t budget = unsatisfiable;
    /// Longest time that the loop waits for a batch; 0 means no limit. If the time passes, the loop
    /// throws `loader_error{timed_out}` with the number of blocks in each state. On the simulated
    /// device this is simulated time; while a source blocks in real time, it is real time, at least
    /// 200 ms.
    std::chrono::nanoseconds timeout{0};
    /// If true, pageable memory is used for a block if no more memory can be pinned.
    /// `loader_statistics::pageable` counts such blocks.
    bool pageable_fallback = false;
    /// If true, pinned memory is allocated on the device's NUMA node, and producers run there, if
    /// the node is known.
    bool numa_local = false;
    /// Priority of the loader's own copy stream, if the platform has priorities. Lower is more
    /// urgent. Ignored if the caller supplied the copy stream.
    int priority = 0;
    /// If true, a callback or a completion flag (`completion_flags`) reports the end of each copy,
    /// so that no thread waits for its event. If false, the producer that fills the pinned block
    /// next waits for the copy's event.
    bool call_back = true;
    /// If true, and `call_back` is true, the device writes a flag in pinned memory at the end of a
    /// copy instead of calling a host function. An idle producer polls the flag. Small batches are
    /// about twice as fast this way. Has no effect if the device cannot write flags, a block is
    /// pageable, or the flags do not fit in `budget`.
    bool completion_flags = true;
    /// If true, a pinned block is overwritten with 0xFF before it is filled, and a device block
    /// after its release, so that an access that comes too late reads wrong values.
    bool checker = false;
    /// If true, timed events measure on the device how long batches are copied and used: see
    /// `copy_ns`, `use_ns` and `verdict()` of `loader_statistics`. Has no effect if the platform
    /// has no timed events.
    bool timing = false;
};

} // namespace vram
