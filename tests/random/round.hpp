// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `round` is one random configuration: a pool's options and the load. The seed determines all of
/// it.

#include "dice.hpp" // dice

#include <vram/pool/event_policy.hpp> // event_policy
#include <vram/sim/sim.hpp>           // sim_options

#include <algorithm> // min
#include <array>     // array
#include <cstddef>   // size_t
#include <cstdint>   // uint64_t

namespace trial {

using namespace vram::literals;

/// The parameters that the caller fixes; zero: random.
struct wishes {
    unsigned streams = 0;
    unsigned threads = 0;
    unsigned length  = 120'000; ///< operations of a round that is not expensive
};

/// The sizes of requests.
enum class sizes { any, small, few, large };

struct round {
    round(std::uint64_t s, wishes const& fixed) : seed{s} {
        dice d{seed};
        streams = fixed.streams != 0 ? fixed.streams : 1 + static_cast<unsigned>(d.below(16));
        threads = d.one_in(3) ? 2 + static_cast<unsigned>(d.below(7)) : 1;
        if (fixed.threads != 0) { threads = fixed.threads; }
        kind     = static_cast<sizes>(d.below(4));
        max_size = 8_MiB << d.below(4);
        largest  = kind == sizes::small ? 4_KiB : kind == sizes::large ? max_size / 8 : 256_KiB;
        scarce   = d.one_in(8);
        room     = scarce ? max_size : max_size / 8 * (1 + d.below(5));
        blocks   = std::size_t{16} << d.below(6);
        watched  = d.one_in(4) ? 256 : 1_MiB << d.below(2);
        events   = d.one_in(2) ? vram::event_policy::eager : vram::event_policy::lazy;
        graphs   = d.one_in(4);
        by_seed  = threads > 1 && d.one_in(2);
        extra_players = threads == 1 && d.one_in(2) ? 1 + static_cast<unsigned>(d.below(3)) : 0;
        // If all blocks are used, memory is scarce, or threads take turns, an operation is many
        // times as slow.
        bool const dear = watched == 256 || scarce || kind == sizes::large || by_seed;
        operations      = (dear ? 2'000 : fixed.length) + d.below(2'000);
        for (auto& each : some) { each = d.size(largest); }
        node     = {.capacity      = 1_GiB,
                    .page          = 256_KiB << d.below(4),
                    .compute_slots = 1 + static_cast<int>(d.below(8)),
                    .on_report     = vram::sim_on_report::collect,
                    .threads       = by_seed ? vram::sim_order::by_seed : vram::sim_order::freely,
                    .seed          = seed};
        handle   = node.page * (d.one_in(2) ? 1 : 1 + 2 * d.below(3));
        max_size = (max_size + handle - 1) / handle * handle; // so that all of it can be allocated
        coarse   = d.one_in(4);
    }

    [[nodiscard]] std::size_t size(dice& d) const noexcept {
        switch (kind) {
        case sizes::few: return some[d.below(some.size())];
        case sizes::large: return largest / 4 + d.below(largest - largest / 4) + 1;
        default: return d.size(largest);
        }
    }

    /// Returns true if the player captures graphs: with one thread the permanent player, otherwise
    /// the first of the additional players.
    [[nodiscard]] bool captures(unsigned who) const noexcept {
        return threads != 1 || who == (extra_players != 0 ? seed % 2 : 0);
    }

    std::uint64_t seed;
    unsigned      streams;
    unsigned      threads;
    sizes         kind;
    std::size_t   max_size;   ///< of the pool
    std::size_t   largest;    ///< block
    bool          scarce;     ///< all that the pool may hold may be asked for
    std::size_t   room;       ///< largest number of live bytes
    std::size_t   blocks;     ///< largest number of live blocks
    std::size_t   watched;    ///< a block is used if it contains a multiple of this
    std::size_t   operations; ///< of all threads together
    bool          graphs;
    unsigned      extra_players; ///< additional players, during waits of the single thread
    /// True if the seed determines the order of threads; otherwise they run freely.
    bool                       by_seed;
    vram::event_policy         events;
    std::size_t                handle; ///< bytes that a pool over virtual memory takes at once
    bool                       coarse; ///< half of the blocks are aligned to a page or more
    std::array<std::size_t, 8> some{};
    vram::sim_options          node;
};

} // namespace trial
