// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_block` is one allocation of simulated memory, with its access history.

#include <vram/sim/machine/sim_operation.hpp> // sim_moment
#include <vram/sim/machine/sim_parts.hpp>     // sim_parts, sim_history, interval_map
#include <vram/sim/machine/vector_clock.hpp>
#include <vram/sim/sim_report.hpp> // sim_event_of, sim_block_of

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

/// A free that is queued on a stream, with the vector clock of the work before it.
struct sim_queued_free {
    sim_moment   place;
    vector_clock vclock;
};

/// One allocation, mapping or registered range. Freed allocations are kept for some time, to detect
/// late accesses.
struct sim_block {
    std::uintptr_t begin = 0;
    std::size_t    bytes = 0;
    sim_kind       kind{};
    bool           freed = false; ///< true if the block is not live
    /// True while a free of the block is queued on a stream, or waits for the device. Earlier work
    /// may still use the block then.
    bool busy = false;
    /// Number of that free among the frees of its pool, see `sim_pool::pending`.
    std::uint64_t ticket = 0;
    /// The last queued free of a block that a graph allocates. A launch that allocates the block
    /// again waits for it.
    std::shared_ptr<sim_queued_free const> queued{};
    /// True if devices may access the block. For a mapping of physical memory,
    /// `sim_pages::set_access` sets this member.
    bool granted = true;
    int  device  = 0;
    /// The blocks that a pool or other resource allocated in this block; null if none divides it.
    std::unique_ptr<sim_parts> parts{};
    /// Element i: true if work of device i may access the memory of the block's pool. Work of the
    /// pool's own device always may. Null if the block is not from a pool.
    std::shared_ptr<std::vector<bool> const> pool_peers;
    /// Access history: the last write to each range, and the reads since then. Empty if no check
    /// needs it.
    interval_map<sim_history> history;
    /// Bytes of the block that its device or pool counts as used; 0 for host memory and mappings.
    std::size_t counted = 0;
    /// Value of `place` of a block without a place.
    static constexpr std::size_t no_place = ~std::size_t{0};
    /// Place of the block in `sim_pool::places`, if it is live and has one.
    std::size_t place = no_place;
    /// Not expired while a node of a graph allocates or frees this block, see
    /// `sim_graph_state::node::keeps`.
    std::weak_ptr<void> nodes;
    sim_pool const*     pool = nullptr; ///< the pool from which the block was allocated, if any
    /// The pool of a block that is allocated by a graph; empty for other blocks.
    std::weak_ptr<sim_pool> graph_pool{};
    /// True if a graph allocates the block, and the same graph does not free it.
    bool outlives = false;
    /// True if `graph_pool` counts the bytes of this block, which a graph allocates, as live.
    bool counted_live = false;
    /// Handle of the physical memory that is mapped here, or 0 if the block is not a mapping.
    std::uint64_t physical = 0;
    /// Sequence number of the block's free among all frees in its `sim_space`; 0 before the free.
    std::uint64_t retired = 0;
    sim_event_of  allocated{};
    sim_event_of  released{};

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    [[nodiscard]] sim_block_of   description() const noexcept {
        return {"", begin, bytes, allocated, freed ? released : sim_event_of{}, {}, {}, {}, {}};
    }
    /// Returns the advice of the report that this block leaks. A resource that keeps freed memory,
    /// such as `stream_ordered`, may still have the block after the program freed it.
    [[nodiscard]] char const* leak_advice() const {
        sim_inner_block const* const part = parts != nullptr ? parts->at(begin) : nullptr;
        bool const kept = part != nullptr && part->freed && part->is_whole(begin, bytes);
        return kept
                   ? "It was freed, but not returned by its resource. Destroy or trim the resource "
                     "before the node ends."
                   : "Free every block before the node ends.";
    }
    /// Returns true if the addresses of the block may be allocated again.
    [[nodiscard]] bool reusable() const noexcept { return freed && !busy && nodes.expired(); }
};

} // namespace detail
} // namespace vram
