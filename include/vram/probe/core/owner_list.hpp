// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `owner_list` merges and sorts the figures of tags, lines and threads.

#include <vram/base/call_site.hpp>
#include <vram/base/core/sort.hpp>
#include <vram/base/tag.hpp> // memory_tag
#include <vram/probe/tracked_owner.hpp>

#include <cstring> // strcmp
#include <vector>  // vector

namespace vram {
namespace detail {

/// Returns true if the figures `a` are those of this tag and line. Compares the text of file names,
/// because a name may have another address in each translation unit.
[[nodiscard]] inline bool is_of(tracked_owner const& a, memory_tag owner, call_site at) noexcept {
    return a.owner == owner && a.at.line() == at.line() && std::strcmp(a.at.file(), at.file()) == 0;
}
// The functions below are templates for the reason that `only_if_used` states.

/// Merges the figures of several threads. Returns one entry for each pair of a tag and a program
/// line, the sum of all entries in `parts` for this pair.
template <class Owner = tracked_owner>
[[nodiscard]] std::vector<Owner> merged_owners(std::vector<Owner> parts) {
    sort(parts.data(), parts.size(), [](Owner const& a, Owner const& b) {
        if (a.owner != b.owner) { return a.owner.id() < b.owner.id(); }
        int const order = std::strcmp(a.at.file(), b.at.file());
        return order != 0 ? order < 0 : a.at.line() < b.at.line();
    });
    std::vector<Owner> all;
    for (Owner const& each : parts) {
        if (all.empty() || !is_of(all.back(), each.owner, each.at)) {
            all.push_back(each);
            continue;
        }
        Owner& to = all.back();
        to.live += each.live;
        to.blocks += each.blocks;
        to.peak += each.peak;
        to.at_peak += each.at_peak;
        to.allocations += each.allocations;
        to.allocated += each.allocated;
        to.crossed += each.crossed;
        to.peak_is_exact = false;
        if (each.crossed_at.known()) { to.crossed_at = each.crossed_at; }
    }
    return all;
}
/// Returns the list `all`, sorted by live bytes, the largest first. If two entries have equal live
/// bytes, the one with more bytes at the peak comes first.
template <class Owner = tracked_owner>
[[nodiscard]] std::vector<Owner> sorted_owners(std::vector<Owner> all) {
    sort(all.data(), all.size(), [](Owner const& a, Owner const& b) {
        if (a.live != b.live) { return a.live > b.live; }
        if (a.at_peak != b.at_peak) { return a.at_peak > b.at_peak; }
        if (a.peak != b.peak) { return a.peak > b.peak; }
        int const order = std::strcmp(a.owner.path(), b.owner.path());
        return order != 0 ? order < 0 : a.at.line() < b.at.line();
    });
    return all;
}

} // namespace detail
} // namespace vram
