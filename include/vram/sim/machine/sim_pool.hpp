// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_pool` is the state of a stream-ordered pool of a simulated device.

#include <vram/base/align.hpp>                // unsatisfiable
#include <vram/sim/machine/sim_operation.hpp> // sim_moment
#include <vram/sim/machine/sim_places.hpp>
#include <vram/sim/machine/vector_clock.hpp>

#include <cstddef>
#include <cstdint>
#include <map>    // map
#include <memory> // shared_ptr, unique_ptr, enable_shared_from_this
#include <set>    // set
#include <vector> // vector

namespace vram {
namespace detail {

/// A pool like those of cudaMallocAsync: the memory that it has reserved, and the frees that are
/// queued on streams.
struct sim_pool : std::enable_shared_from_this<sim_pool> {
    struct waiting {
        sim_moment    place  = {};
        vector_clock  vclock = {};
        std::size_t   slot   = 0;
        std::uint64_t count  = 0;
        std::size_t   bytes  = 0;
        std::uint64_t ticket = 0;
    };

    int device = 0;
    /// For each device: true if its work may access the memory of the pool.
    std::shared_ptr<std::vector<bool>> peers;
    /// If more bytes than this are reserved, unused memory is returned to the device.
    std::size_t   threshold = 0;
    std::size_t   maximum   = unsatisfiable;
    std::size_t   reserved  = 0;
    std::size_t   live      = 0;
    std::size_t   peak_live = 0, peak_reserved = 0;
    std::uint64_t tickets = 0;
    /// Frees that are queued on streams and not yet complete, by their tickets. A ticket is a
    /// number that increases with each free.
    std::map<std::uint64_t, waiting> pending = {};
    /// For each stream (by its index in vector clocks): the tickets of its queued frees. The frees
    /// of one stream happen in the order of their tickets.
    std::map<std::size_t, std::set<std::uint64_t>> by_slot       = {};
    std::size_t                                    pending_bytes = 0;
    /// The places of the blocks, if the pool reserves memory in units; otherwise null. Then
    /// `pending_bytes` has only frees of blocks without a place: those that graphs allocate.
    std::unique_ptr<sim_places> places = nullptr;

    /// Returns the bytes in which the pool reserves memory.
    [[nodiscard]] std::size_t step() const noexcept { return places ? places->unit() : 1; }
    /// Returns the reserved bytes that belong to units.
    [[nodiscard]] std::size_t backed() const noexcept { return places ? places->backed() : 0; }
    /// Returns the live bytes of blocks that have no place.
    [[nodiscard]] std::size_t live_elsewhere() const noexcept {
        return live - (places ? places->live() : 0);
    }
    /// Returns the freed bytes that a stream may still use.
    [[nodiscard]] std::size_t all_pending() const noexcept {
        return pending_bytes + (places ? places->pending() : 0);
    }

    /// Adds a free that is queued on a stream. Cost: O(log pending).
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
    /// Removes the queued free with this ticket. Called when the stream has completed the free, or
    /// when an allocation takes the freed memory.
    void remove(std::uint64_t ticket) noexcept {
        auto const at = pending.find(ticket);
        if (at == pending.end()) { return; }
        pending_bytes -= at->second.bytes;
        forget(at->second.slot, ticket);
        pending.erase(at);
    }
    /// Returns the oldest queued free for which `ordered(free)` is true, or null. Calls `ordered`
    /// only for the first free of each stream. Cost: O(streams).
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

} // namespace detail
} // namespace vram
