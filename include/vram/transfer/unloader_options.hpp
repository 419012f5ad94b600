// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_options` are the depths and limits of an unloader.

#include <vram/base/align.hpp> // unsatisfiable

#include <cstddef>

namespace vram {

/// Options of an unloader. Each has a default that suits most programs.
struct unloader_options {
    /// Largest number of bytes of a result (the data of one call of `unloader::next` or `push`).
    std::size_t batch_bytes = std::size_t{4} << 20;
    /// Number of results in progress at the same time, at least 1. 2 overlaps computing, copying
    /// and the sink.
    std::size_t depth = 2;
    /// Number of pinned blocks. A block is free again once the sink has returned. 0 means `depth`.
    std::size_t pinned_depth = 0;
    /// Number of device blocks; 0 means `depth`. A block is free again once its copy to the host is
    /// enqueued.
    std::size_t device_depth = 0;
    /// Largest sum of pinned and device memory in bytes; no limit by default. If more is needed,
    /// the constructor throws `over_limit` before it allocates.
    std::size_t budget = unsatisfiable;
    /// If true, pageable memory is used for a block if no more memory can be pinned.
    /// `unloader::pageable()` returns the number of such blocks.
    bool pageable_fallback = false;
    /// If true, pinned memory is allocated on the NUMA node of the device, and the sink runs on
    /// this node. Has no effect if the node is unknown.
    bool numa_local = false;
    /// Priority of the copy stream, if the platform has priorities. Lower is more urgent.
    int priority = 0;
    /// If true, the device reports the end of a copy by a flag in pinned memory where possible,
    /// instead of calling a host function.
    bool completion_flags = true;
};

} // namespace vram
