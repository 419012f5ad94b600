// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `for_overlapping` visits the address ranges of a map that overlap another range.

#include <vram/base/requirements.hpp>

#include <cstdint>
#include <iterator>    // prev
#include <map>         // map
#include <type_traits> // is_same_v
#include <utility>

namespace vram {
namespace detail {

/// Returns the end of an address range, which is an element of a map. The key of the element is the
/// begin of the range. The value is the end, or has a member `end`.
template <class Value>
[[nodiscard]] std::uintptr_t end_of(std::pair<std::uintptr_t const, Value> const& range) noexcept {
    if constexpr (std::is_same_v<Value, std::uintptr_t>) {
        return range.second;
    } else {
        return range.second.end;
    }
}

/// Calls `visit(i)` for each range of a map that overlaps [from, to), by address. The ranges are
/// disjoint. `visit` may erase the range.
template <class Value, class Visit>
void for_overlapping(std::map<std::uintptr_t, Value>& ranges, std::uintptr_t from,
                     std::uintptr_t to, Visit const& visit) {
    auto each = ranges.lower_bound(from);
    if (each != ranges.begin() && end_of(*std::prev(each)) > from) { --each; }
    while (each != ranges.end() && each->first < to) {
        auto const now = each++;
        visit(now);
    }
}

} // namespace detail
} // namespace vram
