// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `first_chunks` finds the chunks at the start of a record.

#include <vram/concepts/observer.hpp>      // memory_event_kind
#include <vram/history/history_record.hpp> // history_record, history_record::chunk

#include <algorithm> // sort
#include <cstddef>
#include <cstdint>
#include <iterator> // prev
#include <map>      // map
#include <utility>
#include <vector> // vector

namespace vram {
namespace detail {

/// Returns the chunks at the start of the record, sorted by address; of two at one address, the
/// larger is first.
[[nodiscard]] inline std::vector<history_record::chunk> first_chunks(history_record const& from) {
    using kind = memory_event_kind;
    // The chunks at the time of one event: bytes, by resource and address. The loop below goes from
    // the last event back to the first.
    std::map<std::pair<std::uint32_t, std::uint64_t>, std::uint64_t> at;
    for (history_record::chunk const& c : from.chunks) { at[{c.resource, c.memory}] = c.bytes; }
    for (std::size_t i = from.events.size(); i-- != 0;) {
        history_record::event const& e = from.events[i];
        if (e.kind == kind::chunk_removed) { at[{e.resource, e.memory}] = e.bytes; }
        if (e.kind != kind::chunk_added) { continue; }
        auto after = at.upper_bound({e.resource, e.memory});
        if (after == at.begin()) { continue; }
        auto const found = std::prev(after);
        if (found->first.first != e.resource || e.memory - found->first.second >= found->second) {
            continue;
        }
        // Undoes the event `chunk_added`: removes its bytes from the chunk. Parts of the chunk
        // before and behind them remain.
        std::uint64_t const before = e.memory - found->first.second;
        std::uint64_t const rest   = found->second - before;
        if (rest > e.bytes) { at[{e.resource, e.memory + e.bytes}] = rest - e.bytes; }
        if (before != 0) {
            found->second = before;
        } else {
            at.erase(found);
        }
    }
    std::vector<history_record::chunk> sorted;
    for (auto const& [k, bytes] : at) { sorted.push_back({k.second, bytes, k.first}); }
    std::sort(sorted.begin(), sorted.end(), [](auto const& a, auto const& b) {
        return a.memory != b.memory ? a.memory < b.memory : a.bytes > b.bytes;
    });
    return sorted;
}

} // namespace detail
} // namespace vram
