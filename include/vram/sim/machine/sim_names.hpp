// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_names` holds the names that a program gave to streams, host threads and memory.

#include <vram/sim/sim_range.hpp>
#include <vram/sim/sim_report.hpp> // sim_event_of, sim_report

#include <cstddef>
#include <cstdint>
#include <deque>         // deque
#include <iterator>      // prev
#include <map>           // map
#include <string>        // string, to_string
#include <unordered_map> // unordered_map
#include <utility>

namespace vram {
namespace detail {

/// The names that the program gave to streams, host threads and memory, for reports. Of streams and
/// threads, only the newest 4096 are kept.
///
/// Failure   The functions that set names throw `std::bad_alloc`.
/// Threads   The caller holds the machine's lock.
class sim_names {
public:
    /// Largest number of names of streams and threads that are remembered.
    static constexpr std::size_t most = 4096;

    /// Sets the text by which reports name the stream or host thread, such as `stream "copies"`.
    void set(bool host, std::uint64_t actor, std::string text) {
        std::uint64_t const key = key_of(host, actor);
        auto const [at, added]  = actors_.insert_or_assign(key, std::move(text));
        if (!added) { return; }
        order_.push_back(key);
        if (order_.size() <= most) { return; }
        actors_.erase(order_.front());
        order_.pop_front();
    }
    /// Sets the text by which reports name the default stream with this id. This text is never
    /// forgotten.
    void set_default(std::uint64_t stream, std::string text) {
        actors_.insert_or_assign(key_of(false, stream), std::move(text));
    }
    /// Names the memory of `range` until its addresses are allocated again.
    void set(sim_range range, std::string text) {
        if (range.bytes == 0) { return; }
        forget(range);
        memory_[range.begin()] = {range.end(), std::move(text)};
    }
    /// Forgets the names of memory that overlaps `range`.
    void forget(sim_range range) noexcept {
        if (memory_.empty()) { return; }
        auto at = memory_.upper_bound(range.begin());
        if (at != memory_.begin() && std::prev(at)->second.end > range.begin()) { --at; }
        while (at != memory_.end() && at->first < range.end()) { at = memory_.erase(at); }
    }

    /// Returns the text by which reports name the stream or host thread of `e`.
    [[nodiscard]] std::string of(sim_event_of const& e) const {
        auto const found = actors_.find(key_of(e.host, e.actor));
        if (found != actors_.end()) { return found->second; }
        return (e.host ? "host thread " : "stream ") + std::to_string(e.actor);
    }
    /// Returns a text with the name of the memory at `address` and the offset in it; empty if the
    /// memory has no name.
    [[nodiscard]] std::string of(std::uintptr_t address) const {
        auto const after = memory_.upper_bound(address);
        if (after == memory_.begin()) { return {}; }
        auto const& [begin, named] = *std::prev(after);
        if (address >= named.end) { return {}; }
        std::string const offset =
            address == begin ? "" : ", from byte " + std::to_string(address - begin);
        return "in \"" + named.text + "\"" + offset;
    }
    /// Adds to a report the names of the streams, threads and memory in it.
    void complete(sim_report& r) const {
        r.second_by = of(r.second);
        r.first_by  = of(r.first);
        r.memory    = of(r.address);
        if (r.block.bytes == 0) { return; }
        r.block.allocated_by = of(r.block.allocated);
        r.block.freed_by     = of(r.block.freed);
        r.block.before_by    = of(r.block.before);
    }

private:
    struct named_range {
        std::uintptr_t end = 0;
        std::string    text;
    };
    static std::uint64_t key_of(bool host, std::uint64_t actor) noexcept {
        return 2 * actor + (host ? 1 : 0);
    }

    std::unordered_map<std::uint64_t, std::string> actors_;
    /// The streams and threads that have names, in the order in which they first got one.
    std::deque<std::uint64_t>             order_;
    std::map<std::uintptr_t, named_range> memory_;
};

} // namespace detail
} // namespace vram
