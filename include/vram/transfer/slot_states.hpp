// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_states` is the number of blocks of a loader in each state.

#include <vram/base/requirements.hpp>

#include <cstddef>

namespace vram {

/// The number of a loader's blocks in each state. If most blocks are `filling`, the source is slow;
/// if they are `held`, the loop does not release its batches; if they are `copying`, the device is
/// slow.
struct slot_states {
    /// Number of pinned blocks that are free.
    std::size_t empty   = 0;
    std::size_t filling = 0; ///< number of pinned blocks that the source is writing
    /// Number of filled pinned blocks whose copy is not enqueued yet, for example because no device
    /// block is free.
    std::size_t filled = 0;
    /// Number of pinned blocks with a copy that is not known to be complete.
    std::size_t copying = 0;
    std::size_t unused  = 0; ///< number of device blocks that are free
    std::size_t ready   = 0; ///< number of device blocks with a batch for the loop, not yet taken
    std::size_t held    = 0; ///< number of device blocks with a batch that the loop is using

    std::size_t waiting = 0; ///< number of producers that wait for a free block

    friend bool operator==(slot_states const&, slot_states const&) = default;
};

} // namespace vram
