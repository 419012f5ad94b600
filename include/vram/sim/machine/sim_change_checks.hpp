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

/// Starts an access history for each live block that has none; for all if `anew`.
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

/// Selects the mistakes to detect from now on. If this switches `races` on, no later operation
/// conflicts with an earlier one, because order that arose in between is unknown. The caller holds
/// the lock of the machine. Throws `std::bad_alloc`.
inline void sim_change_checks(sim_machine& m, sim_checks const& to) {
    auto const records   = [](sim_checks const& c) { return c.races || c.bounds || c.residency; };
    sim_checks const was = m.checker.on();
    bool const       begins = to.races && !was.races;
    // Without any of these checks, no access was recorded, so that the histories may lack writes.
    bool const anew = records(to) && !records(was);
    if (begins || anew) { sim_begin_histories{anew}.in(m); }
    if (begins) {
        // Forgets earlier writes to words for which streams wait, because nothing is known about
        // their order.
        for (auto& [at, word] : m.words) { word.done.clear(); }
        m.checker.since = m.schedule.next_number();
    }
    // While none of these checks was on, allocations and frees of resources were not recorded.
    bool const recorded = was.races || was.bounds || was.uninitialised;
    if (!recorded && (to.races || to.bounds || to.uninitialised)) { m.checker.miss_event(); }
    m.checker.set(to);
}

} // namespace detail
} // namespace vram
