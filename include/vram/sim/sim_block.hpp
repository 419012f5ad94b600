// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_block` is one allocation of simulated memory, with its access history.

#include <vram/sim/interval_map.hpp> // interval_map
#include <vram/sim/sim_report.hpp>   // sim_event_of

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <memory>  // weak_ptr
#include <vector>  // vector

namespace vram {

// Defined in sim/sim_pool.hpp.
struct sim_pool;

/// The kinds of simulated memory. Host memory that the node does not know is pageable.
enum class sim_kind : unsigned char { device, device_async, pinned, managed, registered, pageable };

/// The access history of a range of memory: the last write, and the reads since then.
struct sim_history {
    sim_event_of              write;
    std::vector<sim_event_of> reads;
};

/// One allocation. After its free, it is kept until its addresses are reused, to detect late
/// accesses.
struct sim_block {
    std::uintptr_t begin = 0;
    std::size_t    bytes = 0;
    sim_kind       kind{};
    int            device  = 0;
    std::size_t    counted = 0;     ///< bytes of the device that the block occupies
    bool           freed   = false; ///< true after the program has freed the block
    bool           busy    = false; ///< earlier work of the stream that freed it may still use it
    /// The device may access the block. A mapping is granted by `sim_pages::set_access`.
    bool                granted = true;
    std::weak_ptr<void> graph;          ///< graph that allocates the block at each launch, if any
    sim_pool const*     pool = nullptr; ///< stream-ordered pool of the block, if any
    /// Handle of the physical memory that is mapped here, or 0 if the block is not a mapping.
    std::uint64_t             physical = 0;
    sim_event_of              allocated{};
    sim_event_of              released{};
    interval_map<sim_history> history; ///< access history; empty if no check needs it

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    /// Returns true if the addresses of the block may be allocated again.
    [[nodiscard]] bool reusable() const noexcept { return freed && !busy && graph.expired(); }
};

} // namespace vram
