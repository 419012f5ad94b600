// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `loader_options` is how far a loader runs ahead, and what it may take for it.

#include <vram/base/align.hpp> // unsatisfiable

#include <cstddef> // size_t

namespace vram {

/// Everything has a default that suits most loops.
struct loader_options {
    /// Bytes that a batch has at most. A slot is this much pinned and this much device memory.
    std::size_t batch_bytes = std::size_t{4} << 20;
    /// Slots: 2 overlap producing, copying and using; more only even out what varies; 1 overlaps
    /// nothing but the loop's own work; 0 produces in the consumer's thread, with one slot, to be
    /// debugged.
    std::size_t depth = 2;
    /// Pinned and device bytes that may be taken together; checked before anything is.
    std::size_t budget = unsatisfiable;
    /// Whether copies are timed on the device, for `loader_statistics::copy_ns` and its verdict.
    bool timing = false;
};

} // namespace vram
