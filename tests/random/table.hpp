// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `table` is the shared state of the players of a round.

#include "../laws/claims.hpp"     // claims
#include "../laws/stream_set.hpp" // stream_set
#include "block.hpp"              // block
#include "round.hpp"              // round

#include <vram/sim/sim.hpp> // sim_lock

#include <atomic>  // atomic
#include <cstddef> // size_t
#include <memory>  // unique_ptr
#include <mutex>   // mutex
#include <string>  // string
#include <utility> // move
#include <vector>  // vector

namespace trial {

/// The shared state of the players of a round: streams, owners of bytes, blocks between threads,
/// and the first error.
struct table {
    explicit table(round const& r) : plan{r}, streams{r.streams} {}

    /// Records an error; only the first is kept.
    void wrong(std::string what) {
        std::lock_guard const held{first};
        if (!stop.exchange(true)) { mistake = std::move(what); }
    }

    round const&                         plan;
    laws::stream_set<vram::sim_platform> streams;
    laws::claims                         taken;
    /// Protects `passed` and `live`; the simulated device observes which thread passes blocks.
    vram::detail::sim_lock        door;
    std::vector<block>            passed{};          ///< blocks that any thread may pick up
    std::unique_ptr<laws::claims> kept{};            ///< memory of graphs; null: there are none
    bool                          capturing = false; ///< a stream, now
    std::size_t                   meddled   = 0;     ///< operations of additional players
    std::size_t                   live      = 0;     ///< blocks that exist, for a `monotonic`
    std::atomic<std::size_t>      stale{0};          ///< reads that found another number
    std::atomic<bool>             stop{false};
    std::mutex                    first;
    std::string                   mistake{};
};

} // namespace trial
