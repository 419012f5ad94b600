// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_conflicts` collects the earlier operations that an operation is not ordered after.

#include <vram/sim/machine/sim_late_order.hpp>
#include <vram/sim/machine/sim_parts.hpp> // sim_history, sim_event_of
#include <vram/sim/machine/vector_clock.hpp>

#include <algorithm> // find, max, min
#include <cstddef>
#include <cstdint>
#include <span>   // span
#include <vector> // vector

namespace vram {
namespace detail {

/// Collects the earlier operations that conflict with one later operation. Both access the same
/// byte, nothing orders them, and they are not two reads or two atomic accesses. For each stream or
/// host thread, usually only the last such operation is stored.
class sim_conflicts {
public:
    struct conflict {
        sim_event_of   with;
        std::uintptr_t begin;
        std::uintptr_t end;
    };

    /// Prepares a search for operations that conflict with `step`. `clocks`: vector clocks of the
    /// work that happens before `step`. If `fully` is true, waits inside resources, such as pools,
    /// also count as order. For the order of an earlier free, such waits always count.
    sim_conflicts(sim_event_of const& step, std::span<vector_clock const* const> clocks,
                  bool fully = false) noexcept
        : step_{step}, clocks_{clocks}, fully_{fully} {}

    /// From now on, the allocation of the memory does not count as a conflict with `step`.
    void uses_only() noexcept { uses_only_ = true; }

    /// Adds the operations in `h` that conflict with `step` to the found conflicts. `h` is the
    /// access history of the bytes from `begin` to `end`.
    void collect(std::uintptr_t begin, std::uintptr_t end, sim_history const& h) {
        look(begin, end, h.write);
        if (step_.what == sim_event_of::kind::read && !h.mixed) { return; }
        for (sim_event_of const& earlier : h.reads) {
            // Two reads do not conflict, and neither do two atomic accesses.
            bool const alike =
                step_.what == earlier.what && step_.what != sim_event_of::kind::write;
            if (!alike) { look(begin, end, earlier); }
        }
    }
    void look(std::uintptr_t begin, std::uintptr_t end, sim_event_of const& earlier) {
        if (uses_only_ && earlier.what == sim_event_of::kind::allocation) { return; }
        if (ordered(earlier)) { return; }
        for (conflict& known : found_) {
            if (known.with.slot != earlier.slot) { continue; }
            if (late_ != nullptr && late_->between(known.with, earlier)) { continue; }
            if (earlier.count > known.with.count) { known.with = earlier; }
            known.begin = std::min(known.begin, begin);
            known.end   = std::max(known.end, end);
            return;
        }
        found_.push_back({earlier, begin, end});
    }

    /// From now on, stores two conflicts with the same stream or thread separately if a wait in
    /// `late` may order only one of them. Such a wait is for work that is not queued yet. Ignores
    /// operations with numbers below `since`.
    void separate(sim_late_order const& late, std::uint64_t since) noexcept {
        late_  = &late;
        since_ = since;
    }

    /// Removes the found conflicts with some streams and threads. `slots`: the indices of these
    /// streams and threads in vector clocks.
    void ignore(std::vector<std::size_t> const& slots) {
        std::erase_if(found_, [&](conflict const& each) {
            return std::find(slots.begin(), slots.end(), each.with.slot) != slots.end();
        });
    }

    /// Returns the vector clock of everything that happens before `step`.
    [[nodiscard]] vector_clock clock() const {
        vector_clock all;
        for (vector_clock const* const each : clocks_) { all.join(*each); }
        return all;
    }
    [[nodiscard]] sim_event_of const&          step() const noexcept { return step_; }
    [[nodiscard]] std::vector<conflict> const& found() const noexcept { return found_; }

private:
    [[nodiscard]] bool ordered(sim_event_of const& earlier) const noexcept {
        if (earlier.what == sim_event_of::kind::none || earlier.number < since_) { return true; }
        bool const fully = fully_ || earlier.what == sim_event_of::kind::release;
        for (vector_clock const* const clock : clocks_) {
            if (fully ? clock->includes_fully(earlier.slot, earlier.count)
                      : clock->includes(earlier.slot, earlier.count)) {
                return true;
            }
        }
        return false;
    }

    sim_event_of const&                  step_;
    std::span<vector_clock const* const> clocks_;
    bool                                 fully_;
    bool                                 uses_only_ = false;
    sim_late_order const*                late_      = nullptr;
    std::uint64_t                        since_     = 0;
    std::vector<conflict>                found_;
};

} // namespace detail
} // namespace vram
