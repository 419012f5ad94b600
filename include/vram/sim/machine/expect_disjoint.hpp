// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `expect_disjoint` reports copies with a source and a destination that overlap.

#include <vram/sim/machine/sim_call.hpp> // sim_call, sim_machine

#include <algorithm> // max, min, sort
#include <cstdint>
#include <map>    // map
#include <vector> // vector

namespace vram {
namespace detail {

/// Returns a range that one of the accesses `uses` writes and another one reads or writes. Returns
/// an empty range if there is none.
inline sim_range first_overlap(std::vector<sim_task::use> uses) {
    std::sort(uses.begin(), uses.end(), [](sim_task::use const& a, sim_task::use const& b) {
        return a.range.begin() < b.range.begin();
    });
    std::uintptr_t read_until = 0, written_until = 0;
    for (sim_task::use const& u : uses) {
        bool const           reads = u.access == sim_access::read;
        std::uintptr_t const other = reads ? written_until : std::max(read_until, written_until);
        if (u.range.bytes != 0 && other > u.range.begin()) {
            return {reinterpret_cast<void const*>(u.range.begin()),
                    std::min(other, u.range.end()) - u.range.begin()};
        }
        std::uintptr_t& mine = reads ? read_until : written_until;
        mine                 = std::max(mine, u.range.end());
    }
    return {};
}

/// Returns `uses` with the ranges of mapped physical memory in place of the ranges of reserved
/// virtual addresses. Ranges of one piece of physical memory that is mapped at several addresses
/// all get addresses in one of these mappings.
inline std::vector<sim_task::use> mapped_uses(sim_memory&                       memory,
                                              std::vector<sim_task::use> const& uses) {
    std::vector<sim_task::use>              all;
    std::map<std::uint64_t, std::uintptr_t> places; // the first mapping of each physical memory
    for (sim_task::use const& u : uses) {
        sim_reservation* const pages = memory.reservation_of(u.range.begin());
        if (pages == nullptr) { all.push_back(u); }
        for (std::uintptr_t at = u.range.begin(); pages != nullptr && at < u.range.end();) {
            sim_block const* const page = pages->mapping(at);
            if (page == nullptr) { break; } // the access itself is reported
            std::uintptr_t const begin = places.emplace(page->physical, page->begin).first->second;
            std::uintptr_t const end   = std::min(page->end(), u.range.end());
            all.push_back(
                {{reinterpret_cast<void const*>(begin + (at - page->begin)), end - at}, u.access});
            at = end;
        }
    }
    return all;
}

/// Reports the mistake `kind` if an access in `uses` writes a range that another access in `uses`
/// reads or writes.
inline void expect_disjoint(sim_call& call, sim_stream_state const& s,
                            std::vector<sim_task::use> const& uses, sim_mistake kind,
                            char const* advice) {
    if (!call.machine.checker.on().races) { return; }
    auto const apart = [](sim_range const& a, sim_range const& b) {
        return a.end() <= b.begin() || b.end() <= a.begin();
    };
    sim_memory& memory = call.machine.memory;
    auto const  mapped = [&](sim_task::use const& u) {
        return memory.reservation_of(u.range.begin()) != nullptr;
    };
    // Returns at once in the usual case, which needs no search: one copy, with a source and a
    // destination that do not overlap, and are not both virtual memory.
    if (uses.size() == 2 && apart(uses[0].range, uses[1].range) &&
        !(mapped(uses[0]) && mapped(uses[1]))) {
        return;
    }
    sim_range const both = first_overlap(mapped_uses(memory, uses));
    if (both.bytes == 0) { return; }
    call.machine.checker.report({kind,
                                 {.name   = "copy",
                                  .what   = sim_event_of::kind::write,
                                  .number = call.machine.schedule.count() + 1,
                                  .actor  = s.id.load(),
                                  .device = s.device,
                                  .time   = call.host->clock,
                                  .where  = call.where,
                                  .slot   = s.slot,
                                  .count  = s.count},
                                 {},
                                 both.begin(),
                                 both.bytes,
                                 advice});
}

} // namespace detail
} // namespace vram
