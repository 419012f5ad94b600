// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_block` is one allocation of simulated memory, with its access history.

#include <vram/sim/machine/sim_parts.hpp> // sim_parts, sim_history, interval_map
#include <vram/sim/sim_report.hpp>        // sim_event_of, sim_block_of

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <memory>  // shared_ptr, unique_ptr, weak_ptr
#include <vector>  // vector

namespace vram {
namespace detail {

// Defined in sim/machine/sim_pool.hpp.
struct sim_pool;

/// The kinds of simulated memory. `pageable` is any memory of the process that the simulation did
/// not allocate or register.
enum class sim_kind : unsigned char { device, device_async, pinned, managed, registered, pageable };

/// One allocation. The object is kept until its addresses are reused, to detect late accesses.
struct sim_block {
    std::uintptr_t begin = 0;
    std::size_t    bytes = 0;
    sim_kind       kind{};
    int            device = 0;
    /// Bytes by which the block reduces the free memory of the device.
    std::size_t counted = 0;
    bool        freed   = false; ///< true after the program has freed the block
    /// True while earlier work of the stream that freed the block may use it.
    bool busy = false;
    /// True if the device may access the block. For a mapping of physical memory,
    /// `sim_pages::set_access` sets it.
    bool granted = true;
    /// The graph that has a node which allocates this block, if any.
    std::weak_ptr<void> graph;
    sim_pool const*     pool = nullptr; ///< the pool from which the block was allocated, if any
    /// The pool, if a graph allocates the block and does not free it: such a block *outlives* the
    /// launch.
    std::weak_ptr<sim_pool> graph_pool{};
    bool                    outlives     = false; ///< true for a block that outlives the launch
    bool                    counted_live = false; ///< true if the pool counts it as live
    /// For each device: true if its kernels may access the memory of `pool`.
    std::shared_ptr<std::vector<bool> const> pool_peers;
    /// Handle of the physical memory that is mapped here, or 0 if the block is not a mapping.
    std::uint64_t physical = 0;
    sim_event_of  allocated{};
    sim_event_of  released{};
    /// The accesses to each part so far; empty if no check needs them.
    interval_map<sim_history> history;
    /// The blocks that a pool or other resource allocated in this block, if one divides it.
    std::unique_ptr<sim_parts> parts{};

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    [[nodiscard]] sim_block_of   description() const noexcept {
        return {"", begin, bytes, allocated, freed ? released : sim_event_of{}, {}, {}, {}, {}};
    }
    /// Returns true if the addresses of the block may be allocated again: it was freed, no stream
    /// still uses it, and no graph allocates it.
    [[nodiscard]] bool reusable() const noexcept { return freed && !busy && graph.expired(); }
};

} // namespace detail
} // namespace vram
