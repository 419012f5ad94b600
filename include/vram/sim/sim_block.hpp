// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_block` is one allocation of the simulated machine, and what was done to it.

#include <vram/sim/interval_map.hpp> // interval_map
#include <vram/sim/sim_report.hpp>   // sim_event_of

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <memory>  // weak_ptr
#include <vector>  // vector

namespace vram {

struct sim_pool; // sim/sim_pool.hpp

/// The kinds of memory. Everything else in the process is pageable.
enum class sim_kind : unsigned char { device, device_async, pinned, managed, registered, pageable };

/// What is known of the accesses to a piece of memory: the last write and the reads since.
struct sim_history {
    sim_event_of              write;
    std::vector<sim_event_of> reads;
};

/// One allocation, live or (until its addresses are used again) remembered as freed.
struct sim_block {
    std::uintptr_t begin = 0;
    std::size_t    bytes = 0;
    sim_kind       kind{};
    int            device  = 0;
    std::size_t    counted = 0;     ///< bytes taken from the device for it
    bool           freed   = false; ///< given back, as far as the program goes
    bool           busy    = false; ///< earlier work of the stream it was freed on may use it yet
    bool           granted = true;  ///< the device may use it: of a mapping, once it was told so
    std::weak_ptr<void> graph;      ///< the graph that allocates it at each launch, if any
    sim_pool const*     pool     = nullptr; ///< the stream-ordered pool that it is from, if any
    std::uint64_t       physical = 0; ///< the physical memory that is mapped here; 0: not a mapping
    sim_event_of        allocated{};
    sim_event_of        released{};
    interval_map<sim_history> history; ///< empty while nobody checks

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }
    /// Returns true if the addresses can be allocated again.
    [[nodiscard]] bool reusable() const noexcept { return freed && !busy && graph.expired(); }
};

} // namespace vram
