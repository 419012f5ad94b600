// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `table` is what the players of a round share.

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

/// What the players of a round share: streams, who has which bytes, blocks on their way from one
/// thread to another, and what went wrong first.
struct table {
    explicit table(round const& r) : plan{r}, streams{r.streams} {}

    /// Takes note of a mistake; only the first is kept.
    void wrong(std::string what) {
        std::lock_guard const held{first};
        if (!stop.exchange(true)) { mistake = std::move(what); }
    }

    round const&                         plan;
    laws::stream_set<vram::sim_platform> streams;
    laws::claims                         taken;
    vram::sim_lock                       door; ///< of `passed`; the machine sees who passes what
    std::vector<block>                   passed{}; ///< blocks that any thread may pick up
    std::unique_ptr<laws::claims>        kept{};   ///< what graphs use; null: there are none
    bool                                 capturing = false; ///< a stream, now
    std::size_t                          meddled   = 0;     ///< operations of those who came in
    std::atomic<std::size_t>             stale{0}; ///< reads that found what another had written
    std::atomic<bool>                    stop{false};
    std::mutex                           first;
    std::string                          mistake{};
};

} // namespace trial
