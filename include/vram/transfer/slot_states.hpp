// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_states` is the number of blocks of a loader in each state.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef> // size_t

namespace vram {

/// Counts of a loader's blocks by state, and of waiting producers. If a loader stalls, the state of
/// all blocks shows the cause: `filling` means that the source is slow, `filled` with `held` that
/// the loop keeps its batches, `copying` that the device is slow.
struct slot_states {
    // Pinned blocks.
    /// pinned blocks that are free
    std::size_t empty   = 0;
    std::size_t filling = 0; ///< a producer's source is writing into the block
    std::size_t filled  = 0; ///< the block waits for a free device block, or for its turn
    std::size_t copying = 0; ///< its copy is not known to be complete
    // Device blocks.
    std::size_t unused = 0; ///< the device block is free: released, or never used
    std::size_t ready  = 0; ///< the device block has a batch, which waits for the loop
    std::size_t held   = 0; ///< the loop holds the batch in the device block

    std::size_t waiting = 0; ///< producers that wait for an empty block

    friend bool operator==(slot_states const&, slot_states const&) = default;
};

} // namespace vram
