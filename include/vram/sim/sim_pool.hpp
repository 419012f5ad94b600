// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_pool` is the books of a stream-ordered pool of the simulated machine.

#include <vram/base/align.hpp>        // unsatisfiable
#include <vram/sim/sim_operation.hpp> // sim_moment
#include <vram/sim/vector_clock.hpp>  // vector_clock

#include <cstddef> // size_t
#include <cstdint> // uint64_t
#include <map>     // map
#include <set>     // set

namespace vram {

/// A pool as cudaMallocAsync has them: what it holds of the device, and what streams are yet to
/// free.
struct sim_pool {
    struct waiting {
        sim_moment    place  = {};
        vector_clock  knows  = {};
        std::size_t   slot   = 0;
        std::uint64_t count  = 0;
        std::size_t   bytes  = 0;
        std::uint64_t ticket = 0;
    };

    int           device    = 0;
    std::size_t   threshold = 0; ///< bytes it may keep when nothing needs them
    std::size_t   maximum   = unsatisfiable;
    std::size_t   reserved  = 0;
    std::size_t   live      = 0;
    std::size_t   peak_live = 0, peak_reserved = 0;
    std::uint64_t tickets = 0;
    /// Freed in the program, not yet in time, in the order of their tickets.
    std::map<std::uint64_t, waiting> pending = {};
    /// Their tickets for each slot. Of the frees of one slot, a stream is ordered after the first
    /// ones.
    std::map<std::size_t, std::set<std::uint64_t>> by_slot       = {};
    std::size_t                                    pending_bytes = 0;

    /// Adds a free. Cost: O(log pending).
    waiting& add(waiting const& w) {
        try {
            by_slot[w.slot].insert(w.ticket);
            waiting& there = pending.emplace(w.ticket, w).first->second;
            pending_bytes += w.bytes;
            return there;
        } catch (...) {
            forget(w.slot, w.ticket);
            throw;
        }
    }
    /// Ends the wait for a free. Cost: O(log pending).
    void remove(std::uint64_t ticket) noexcept {
        auto const at = pending.find(ticket);
        if (at == pending.end()) { return; }
        pending_bytes -= at->second.bytes;
        forget(at->second.slot, ticket);
        pending.erase(at);
    }
    /// The first free that `ordered` is true for, or null. Cost: O(slots).
    template <class Ordered>
    [[nodiscard]] waiting* first(Ordered const& ordered) {
        waiting* found = nullptr;
        for (auto const& [slot, numbers] : by_slot) {
            waiting& w = pending.find(*numbers.begin())->second;
            if ((found == nullptr || w.ticket < found->ticket) && ordered(w)) { found = &w; }
        }
        return found;
    }

private:
    void forget(std::size_t slot, std::uint64_t ticket) noexcept {
        auto const at = by_slot.find(slot);
        if (at == by_slot.end()) { return; }
        at->second.erase(ticket);
        if (at->second.empty()) { by_slot.erase(at); }
    }
};

} // namespace vram
