// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_change_checks` switches checks of a simulated node on and off.

#include <vram/sim/machine/sim_history.hpp>
#include <vram/sim/machine/sim_machine.hpp>
#include <vram/sim/machine/sim_parts.hpp> // sim_parts, sim_inner_block

#include <cstdint>

namespace vram {
namespace detail {

/// Starts an access history for each live block or physical memory that has no history. If `anew`
/// is true, also restarts the existing histories.
class sim_begin_histories {
public:
    explicit sim_begin_histories(bool anew) noexcept : anew_{anew} {}

    void in(sim_machine& m) const {
        m.memory.for_each([&](sim_block& block) { of_live(block); });
        for (auto const& [begin, range] : m.memory.reservations) {
            for (sim_block& mapping : range->space.blocks()) { of_live(mapping); }
            in(range->parts.get());
        }
        for (auto& [handle, memory] : m.memory.physical) { of(memory); }
    }

private:
    void in(sim_parts* parts) const {
        if (parts == nullptr) { return; }
        parts->for_each(
            0, ~std::uintptr_t{},
            [&](sim_inner_block& part, std::uintptr_t, std::uintptr_t) { of_live(part); });
    }
    template <class Block>
    void of_live(Block& block) const {
        if (block.freed) { return; }
        of(block);
        in(block.parts.get());
    }
    template <class Memory>
    void of(Memory& memory) const {
        if (anew_ || memory.history.size() == 0) { memory.history.reset(memory.bytes, {}); }
    }

    bool anew_;
};

/// Switches the checks of the node (simulated machine) on and off, as `to` states. If this switches
/// `races` on, earlier operations are never reported as racing, because their order may be unknown.
/// The caller holds the lock of the machine. Throws `std::bad_alloc`.
inline void sim_change_checks(sim_machine& m, sim_checks const& to) {
    auto const records = [](sim_checks const& c) {
        return c.races || c.bounds || c.residency || c.uninitialised;
    };
    sim_checks const was    = m.checker.on();
    bool const       begins = to.races && !was.races;
    // True if the recording of accesses begins now. All access histories are then restarted,
    // because they may lack writes.
    bool const anew = records(to) && !records(was);
    if (begins || anew) { sim_begin_histories{anew}.in(m); }
    if (begins) {
        // Removes the stored writes to words in memory: their vector clocks may be incomplete.
        for (auto& [at, word] : m.words) { word.done.clear(); }
        m.checker.since = m.schedule.next_number();
    }
    // True if allocations and frees by resources, such as pools, were recorded until now. If they
    // were not, the checker must know that its record has a gap.
    bool const recorded = was.races || was.bounds || was.uninitialised;
    if (!recorded && (to.races || to.bounds || to.uninitialised)) { m.checker.miss_event(); }
    m.checker.set(to);
}

} // namespace detail
} // namespace vram
