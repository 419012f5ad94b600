// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `unloader_options` are the depths and limits of an unloader.

#include <vram/base/align.hpp> // unsatisfiable

#include <cstddef> // size_t

namespace vram {

/// Everything has a default that suits most programs.
struct unloader_options {
    /// Bytes that a result has at most.
    std::size_t batch_bytes = std::size_t{4} << 20;
    /// Results on their way: 2 overlap computing, copying and writing away; more only even out what
    /// varies.
    std::size_t depth = 2;
    /// Pinned blocks, free again when the sink has had them. 0: `depth`.
    std::size_t pinned_depth = 0;
    /// Device blocks, free again once their copy is over. 0: `depth`.
    std::size_t device_depth = 0;
    /// Pinned and device bytes that may be taken together; checked before anything is.
    std::size_t budget = unsatisfiable;
    /// Whether pageable memory will do where no more can be pinned; `pageable()` counts it.
    bool pageable_fallback = false;
    /// Whether pinned memory is taken, and read by the sink, near the device.
    bool numa_local = false;
    /// Of the stream that carries the copies, where the platform has priorities: lower is more
    /// urgent.
    int priority = 0;
    /// Whether the end of a copy leaves a mark in pinned memory, if the device can, which the
    /// sink's thread looks for; else it calls back, which takes many times as long.
    bool completion_flags = true;
};

} // namespace vram
