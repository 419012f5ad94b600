// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `slot_states` says what every block of a loader is doing.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef> // size_t

namespace vram {

/// Counts of blocks by state, and of threads that wait. Where a loader stands still the place with
/// all the blocks is where to look: `filling`, the source; `filled` with `held`, the loop holds
/// what it has; `copying`, the device.
struct slot_states {
    // Pinned blocks.
    std::size_t empty   = 0;
    std::size_t filling = 0; ///< a producer is in the source
    std::size_t filled  = 0; ///< waits for a device block, or for its turn in the order
    std::size_t copying = 0; ///< its copy is not known to be over
    // Device blocks.
    std::size_t unused = 0; ///< given back, and nothing copied into it yet
    std::size_t ready  = 0; ///< waits for the loop
    std::size_t held   = 0; ///< the loop has it

    std::size_t waiting = 0; ///< producers that wait for a block

    friend bool operator==(slot_states const&, slot_states const&) = default;
};

} // namespace vram
