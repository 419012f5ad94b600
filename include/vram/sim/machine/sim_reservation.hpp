// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_reservation` is a reserved range of addresses for mappings.

#include <vram/base/align.hpp>
#include <vram/sim/machine/sim_space.hpp> // sim_space, sim_block
#include <vram/sim/sim_report.hpp>        // sim_event_of

#include <cstddef>
#include <cstdint>
#include <memory> // unique_ptr

namespace vram {
namespace detail {

/// A reserved range of virtual addresses. The blocks of `space` are the mappings of physical memory
/// in the range.
///
/// Failure   The constructor throws `std::bad_alloc` if the process lacks the addresses.
struct sim_reservation {
    /// Reserves addresses for the device `owner`. If `backed`, mappings have contents, and if also
    /// `plain`, the host can access them at the reserved addresses.
    sim_reservation(std::size_t size, std::size_t alignment, int owner, bool backed, bool plain)
        : space{saturating_add(size, alignment), backed && plain},
          begin{align(space.begin(), alignment)},
          bytes{size},
          device{owner} {
        if (backed && !plain) { space.back(); }
    }

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }

    /// Returns the mapping that contains `p`, or null if there is none.
    [[nodiscard]] sim_block* mapping(std::uintptr_t p) {
        sim_block* const block = space.before(p);
        return block != nullptr && p < block->end() ? block : nullptr;
    }

    sim_space      space;
    std::uintptr_t begin;
    std::size_t    bytes;
    int            device;
    sim_event_of   reserved{};
    /// Blocks that a resource, such as a pool, has allocated in the range; null if no resource has.
    std::unique_ptr<sim_parts> parts{};
};

} // namespace detail
} // namespace vram
