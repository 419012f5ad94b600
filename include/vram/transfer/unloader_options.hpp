// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_options` are the depths and limits of an unloader.

#include <vram/base/align.hpp> // unsatisfiable

#include <cstddef> // size_t

namespace vram {

/// Options of an unloader. Each has a default that suits most programs.
struct unloader_options {
    /// Largest number of bytes of a result.
    std::size_t batch_bytes = std::size_t{4} << 20;
    /// Number of results in progress at once. 2 overlap computing, copying and the sink. More than
    /// 2 only even out varying times.
    std::size_t depth = 2;
    /// Number of pinned blocks. A pinned block is free again when the sink has returned. 0 means
    /// `depth`.
    std::size_t pinned_depth = 0;
    /// Number of device blocks. A device block is free again once its copy to the host is complete.
    /// 0 means `depth`.
    std::size_t device_depth = 0;
    /// Largest number of pinned and device bytes together. The unloader checks it before it
    /// allocates.
    std::size_t budget = unsatisfiable;
    /// If true, pageable memory is used for a block if no more memory can be pinned.
    /// `unloader::pageable()` returns the number of such blocks.
    bool pageable_fallback = false;
    /// If true, pinned memory is allocated, and read by the sink, on the NUMA node of the device.
    bool numa_local = false;
    /// Priority of the copy stream, if the platform has priorities. Lower is more urgent.
    int priority = 0;
    /// If true, a copy sets a completion flag in pinned memory at its end, if the device supports
    /// it, and the sink's thread polls the flag. If false, the end of a copy calls a host function,
    /// which takes many times as long.
    bool completion_flags = true;
};

} // namespace vram
