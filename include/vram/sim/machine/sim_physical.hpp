// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_physical` is a piece of physical memory of a simulated device.

#include <vram/sim/machine/sim_block.hpp> // sim_event_of, sim_history, interval_map

#include <cstddef>
#include <cstdint>

namespace vram {
namespace detail {

/// A piece of physical memory. Exists until its handle is destroyed and it is mapped nowhere.
struct sim_physical {
    std::size_t bytes  = 0;
    int         device = 0;
    /// Offset in `sim_frames` (a file in memory) of the contents of this memory, if there are
    /// contents.
    std::uint64_t place    = 0;
    std::size_t   mappings = 0;    ///< number of addresses to which the memory is mapped
    bool          handle   = true; ///< false after the memory's handle was destroyed
    sim_event_of  created{};
    /// Access history of this memory, through all addresses to which it is mapped. Empty if no
    /// check needed it when the memory was created.
    interval_map<sim_history> history{};

    /// Returns an access history without an access, in which a read is one of unwritten memory.
    [[nodiscard]] sim_history unwritten() const {
        sim_event_of first = created;
        first.what         = sim_event_of::kind::allocation;
        first.count        = 0; // every access counts as ordered after it
        return {first, {}};
    }
};

/// Returns true if the part `h` of the access history `history` shows that nothing was written
/// since the allocation of `block`. Returns false for the history of a mapping: the history of its
/// physical memory, which may have been written through another mapping, has the answer.
template <class Block>
[[nodiscard]] bool is_unwritten(Block const& block, interval_map<sim_history> const& history,
                                sim_history const& h) noexcept {
    if constexpr (requires(Block const& b) { b.physical; }) {
        if (block.physical != 0 && &history == &block.history) { return false; }
    }
    return h.write.what == sim_event_of::kind::allocation;
}

} // namespace detail
} // namespace vram
