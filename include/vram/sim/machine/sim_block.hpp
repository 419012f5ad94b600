// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_block` is one allocation of simulated memory, with its access history.

#include <vram/sim/machine/sim_parts.hpp> // sim_parts, sim_history, interval_map
#include <vram/sim/sim_report.hpp>        // sim_event_of, sim_block_of

#include <cstddef>
#include <cstdint>
#include <memory> // shared_ptr, unique_ptr, weak_ptr
#include <vector> // vector

namespace vram {
namespace detail {

// Defined in sim/machine/sim_pool.hpp.
struct sim_pool;

/// The kinds of memory. `pageable` is memory that the simulation neither allocated nor registered.
enum class sim_kind : unsigned char { device, device_async, pinned, managed, registered, pageable };

/// One allocation, mapping or registered range. Freed allocations are kept for some time, to detect
/// late accesses.
struct sim_block {
    std::uintptr_t begin = 0;
    std::size_t    bytes = 0;
    sim_kind       kind{};
    bool           freed = false; ///< true if the block is not live
    /// True while a free of the block is queued, or waits for the device: earlier work may still
    /// use the block.
    bool busy = false;
    /// True if devices may access the block. For a mapping of physical memory, that is the case
    /// after `sim_pages::set_access`.
    bool granted = true;
    int  device  = 0;
    /// The blocks that a pool or other resource allocated in this block; null if none divides it.
    std::unique_ptr<sim_parts> parts{};
    /// Element i: true if kernels of device i may access the memory of the block's pool. Those of
    /// the pool's own device always may. Null without a pool.
    std::shared_ptr<std::vector<bool> const> pool_peers;
    /// Access history: the last write to each range, and the reads since then. Empty if no check
    /// needs it.
    interval_map<sim_history> history;
    /// Bytes for which the block counts in the statistics of the device or pool; 0 for host memory
    /// and mappings.
    std::size_t counted = 0;
    /// The graph that has a node which allocates this block, if any.
    std::weak_ptr<void> graph;
    sim_pool const*     pool = nullptr; ///< the pool from which the block was allocated, if any
    /// The pool of a block that is allocated by a graph; empty for other blocks.
    std::weak_ptr<sim_pool> graph_pool{};
    /// True if a graph allocates the block, and does not free it.
    bool outlives = false;
    /// True if `graph_pool` counts the bytes of this block, which a graph allocates, as live.
    bool counted_live = false;
    /// Handle of the physical memory that is mapped here, or 0 if the block is not a mapping.
    std::uint64_t physical = 0;
    sim_event_of  allocated{};
    sim_event_of  released{};

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    [[nodiscard]] sim_block_of   description() const noexcept {
        return {"", begin, bytes, allocated, freed ? released : sim_event_of{}, {}, {}, {}, {}};
    }
    /// Returns true if the addresses of the block may be allocated again.
    [[nodiscard]] bool reusable() const noexcept { return freed && !busy && graph.expired(); }
};

} // namespace detail
} // namespace vram
