// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_history` records the accesses to a range of memory that later ones may conflict with.

#include <vram/sim/machine/interval_map.hpp>
#include <vram/sim/machine/sim_late_order.hpp>
#include <vram/sim/sim_report.hpp> // sim_event_of

#include <algorithm> // any_of, equal, lower_bound, upper_bound
#include <cstddef>
#include <vector> // vector, erase_if

namespace vram {
namespace detail {

/// The access history of a range of memory: the last write, and the reads and atomic accesses since
/// that write. An older access also remains if a later access may conflict with only one of the
/// two, because of a wait for work that is not queued yet.
struct sim_history {
    sim_event_of              write;
    std::vector<sim_event_of> reads;
    /// True if `reads` contains an access that is not a read: an atomic access or an older write.
    bool        mixed  = false;
    std::size_t latest = 0; ///< index of the element of `reads` that `note` changed last

    /// Adds the access `step`. A read or atomic access replaces the last access of its kind by the
    /// same stream or thread. A write replaces all earlier accesses. Accesses for which
    /// `late.between` is true are not replaced.
    void note(sim_event_of const& step, sim_late_order const& late) {
        if (step.what == sim_event_of::kind::write) { return overwrite(step, late); }
        mixed   = mixed || step.what != sim_event_of::kind::read;
        auto at = place_of(step, late.used());
        // Skips the accesses that `step` must not replace.
        while (at != reads.end() && !is_before(step, *at) && late.between(*at, step)) { ++at; }
        latest = static_cast<std::size_t>(at - reads.begin());
        if (at != reads.end() && !is_before(step, *at)) {
            *at = step;
        } else {
            reads.insert(at, step);
        }
    }

    /// Removes the accesses for which `past(access)` is true. If `keep_fresh` is true, keeps an
    /// allocation until a write follows, for the check of uninitialised reads.
    template <class Past>
    void forget(Past const& past, bool keep_fresh) {
        std::erase_if(reads, past);
        find_mixed();
        bool const fresh = write.what == sim_event_of::kind::allocation;
        if (!(fresh && keep_fresh) && past(write)) { write = {}; }
    }

    /// Returns true if the two histories have the same accesses.
    [[nodiscard]] static bool same(sim_history const& a, sim_history const& b) noexcept {
        return is_same(a.write, b.write) &&
               std::equal(a.reads.begin(), a.reads.end(), b.reads.begin(), b.reads.end(), is_same);
    }

private:
    /// Replaces the earlier accesses by the write `step`, except those for which `late.between` is
    /// true.
    void overwrite(sim_event_of const& step, sim_late_order const& late) {
        bool const any = write.what != sim_event_of::kind::none;
        if (any) {
            reads.insert(std::upper_bound(reads.begin(), reads.end(), write, is_before), write);
        }
        std::erase_if(reads, [&](sim_event_of const& e) { return !late.between(e, step); });
        write  = step;
        latest = 0;
        find_mixed();
    }
    void find_mixed() noexcept {
        mixed = std::any_of(reads.begin(), reads.end(), [](sim_event_of const& e) {
            return e.what != sim_event_of::kind::read;
        });
    }
    /// Returns the position of `step` in `reads`, which is sorted by stream or thread and then by
    /// kind. If `reads` has accesses of the same stream and kind, returns the first of them.
    /// `several`: true if there may be more than one such access.
    std::vector<sim_event_of>::iterator place_of(sim_event_of const& step, bool several) {
        if (reads.empty() || is_before(reads.back(), step)) { return reads.end(); }
        std::size_t const next = latest + 1 < reads.size() ? latest + 1 : 0;
        auto const        at   = reads.begin() + static_cast<std::ptrdiff_t>(next);
        bool const        same = !is_before(*at, step) && !is_before(step, *at);
        if (same && !several) { return at; }
        return std::lower_bound(reads.begin(), reads.end(), step, is_before);
    }
    static bool is_before(sim_event_of const& a, sim_event_of const& b) noexcept {
        return a.slot != b.slot ? a.slot < b.slot : a.what < b.what;
    }
    static bool is_same(sim_event_of const& a, sim_event_of const& b) noexcept {
        return a.what == b.what && a.slot == b.slot && a.count == b.count;
    }
};

/// Removes accesses for which `is_past(slot, count)` is true, because no later operation can
/// conflict with them. Then merges intervals with equal accesses. If `keep_fresh` is true, keeps an
/// allocation until a write follows, for the check of uninitialised reads.
template <class IsPast>
void forget_past(interval_map<sim_history>& history, IsPast const& is_past, bool keep_fresh) {
    auto const past = [&](sim_event_of const& e) { return is_past(e.slot, e.count); };
    history.compact(
        [&](sim_history& h) {
            h.forget(past, keep_fresh);
            return 1 + h.reads.size();
        },
        sim_history::same);
}

} // namespace detail
} // namespace vram
