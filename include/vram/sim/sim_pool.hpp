// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_pool` is the books of a stream-ordered pool of the simulated machine.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/sim/sim_operation.hpp> // sim_moment
#include <vram/sim/vector_clock.hpp>  // vector_clock

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <deque>   // deque

namespace vram {

/// A pool as cudaMallocAsync has them: what it holds of the device, and what streams are yet to
/// free.
struct sim_pool {
    struct waiting {
        sim_moment    place;
        vector_clock  knows;
        std::size_t   slot   = 0;
        std::uint64_t count  = 0;
        std::size_t   bytes  = 0;
        std::uint64_t ticket = 0;
    };

    int                 device    = 0;
    std::size_t         threshold = 0; ///< bytes it may keep when nothing needs them
    std::size_t         maximum   = unsatisfiable;
    std::size_t         reserved  = 0;
    std::size_t         live      = 0;
    std::size_t         peak_live = 0, peak_reserved = 0;
    std::uint64_t       tickets = 0;
    std::deque<waiting> pending = {}; ///< freed in the program, not yet in time

    [[nodiscard]] std::size_t pending_bytes() const noexcept {
        std::size_t sum = 0;
        for (auto const& w : pending) { sum += w.bytes; }
        return sum;
    }
};

} // namespace vram
