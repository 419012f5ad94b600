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

/// Returns the chunks that existed at the start of the record, sorted by address. If two chunks
/// begin at one address, the larger one comes first. Of two with the same size, one is a block of
/// the other: the one that is removed later, that of the lower resource, comes first.
[[nodiscard]] inline std::vector<history_record::chunk> first_chunks(history_record const& from) {
    using kind = memory_event_kind;
    struct first_chunk {
        std::uint64_t bytes;
        std::size_t   end; ///< index of the event that removes the chunk
    };
    // Each chunk, by its resource and address. The loop starts with the chunks at the end of the
    // record, and undoes the events from the last to the first.
    std::map<std::pair<std::uint32_t, std::uint64_t>, first_chunk> at;
    for (history_record::chunk const& c : from.chunks) {
        at[{c.resource, c.memory}] = {c.bytes, from.events.size()};
    }
    for (std::size_t i = from.events.size(); i-- != 0;) {
        history_record::event const& e = from.events[i];
        if (e.kind == kind::chunk_removed) { at[{e.resource, e.memory}] = {e.bytes, i}; }
        if (e.kind != kind::chunk_added) { continue; }
        auto after = at.upper_bound({e.resource, e.memory});
        if (after == at.begin()) { continue; }
        auto const found = std::prev(after);
        if (found->first.first != e.resource ||
            e.memory - found->first.second >= found->second.bytes) {
            continue;
        }
        // The event added `e.bytes` bytes to the chunk `found`. Removes these bytes. The parts of
        // the chunk before and behind them remain.
        std::uint64_t const before = e.memory - found->first.second;
        std::uint64_t const rest   = found->second.bytes - before;
        if (rest > e.bytes) {
            at[{e.resource, e.memory + e.bytes}] = {rest - e.bytes, found->second.end};
        }
        if (before != 0) {
            found->second.bytes = before;
        } else {
            at.erase(found);
        }
    }
    std::vector<std::pair<history_record::chunk, std::size_t>> order;
    for (auto const& [k, c] : at) { order.push_back({{k.second, c.bytes, k.first}, c.end}); }
    std::sort(order.begin(), order.end(), [](auto const& a, auto const& b) {
        if (a.first.memory != b.first.memory) { return a.first.memory < b.first.memory; }
        return a.first.bytes != b.first.bytes ? a.first.bytes > b.first.bytes : a.second > b.second;
    });
    std::vector<history_record::chunk> sorted;
    for (auto const& each : order) { sorted.push_back(each.first); }
    return sorted;
}

} // namespace detail
} // namespace vram
