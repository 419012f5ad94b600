// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_reservation` is a range of addresses that memory can be mapped to.

#include <vram/base/align.hpp>     // align
#include <vram/sim/sim_report.hpp> // sim_event_of
#include <vram/sim/sim_space.hpp>  // sim_space, sim_block

#include <cstddef> // size_t
#include <cstdint> // uintptr_t

namespace vram {

/// Its blocks are what is mapped in it.
///
/// Failure   `std::bad_alloc` where the process has no such range
/// Threads   one at a time: the machine's lock
struct sim_reservation {
    /// `alignment` is a power of two. Where `plain`, the host may use the addresses; else contents,
    /// if there are any (`backed`), are at others.
    sim_reservation(std::size_t size, std::size_t alignment, int owner, bool backed, bool plain)
        : space{saturating_add(size, alignment), backed && plain},
          begin{align(space.begin(), alignment)},
          bytes{size},
          device{owner} {
        if (backed && !plain) { space.back(); }
    }

    [[nodiscard]] std::uintptr_t end() const noexcept { return begin + bytes; }

    /// The mapping that `p` lies in; null where there is none.
    [[nodiscard]] sim_block* mapping(std::uintptr_t p) {
        sim_block* const block = space.before(p);
        return block != nullptr && p < block->end() ? block : nullptr;
    }

    sim_space      space;
    std::uintptr_t begin;
    std::size_t    bytes;
    int            device;
    sim_event_of   reserved{};
};

} // namespace vram
