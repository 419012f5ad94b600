// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `recorder` is an observer that stores all events, and rebuilds from them the blocks and chunks
/// of each resource.

#include "quiet.hpp" // quiet_map

#include <vram/base/core/lock.hpp>    // lock
#include <vram/concepts/observer.hpp> // memory_event

#include <cstddef> // size_t
#include <cstdint> // uintptr_t
#include <map>     // map
#include <string>  // string
#include <utility> // pair
#include <vector>  // vector

namespace doubles {

/// Stores events. `wrong` has a sentence for each event that contradicts the events before it: a
/// block outside the chunks of its resource or over a live block, a free of a block that is not
/// live, a chunk that overlaps another or still has a live block of a layer above.
template <class Stream>
class recorder {
public:
    using event = vram::memory_event<Stream>;
    using kind  = vram::memory_event_kind;

    std::vector<event>       events;
    std::vector<std::string> wrong;

    void observe(event const& e) noexcept {
        auto const held = lock_.hold();
        events.push_back(e);
        follow(e);
    }

    /// Returns the number of events of one kind, in resources with that name ("": any).
    [[nodiscard]] std::size_t count(kind k, std::string const& name = "") const {
        std::size_t n = 0;
        for (event const& e : events) { n += e.kind == k && (name.empty() || name == e.name); }
        return n;
    }
    /// Returns the live bytes of the resources with that name ("": any).
    [[nodiscard]] std::size_t live(std::string const& name) const {
        return sum(name, &books::live);
    }
    /// Returns the bytes of the mapped pages of the resources with that name.
    [[nodiscard]] std::size_t mapped(std::string const& name) const {
        return sum(name, &books::pages);
    }
    /// Returns the bytes of the chunks of the resources with that name.
    [[nodiscard]] std::size_t chunks(std::string const& name) const {
        return sum(name, &books::chunks);
    }
    void clear() {
        events.clear();
        wrong.clear();
    }

private:
    using ranges = std::map<std::uintptr_t, std::size_t>;
    struct books {
        ranges chunks, live, pages;
        bool   paged = false; ///< some page was mapped
    };

    [[nodiscard]] std::size_t sum(std::string const& name, ranges books::* part) const {
        std::size_t bytes = 0;
        for (auto const& [key, of] : all_) {
            if (!name.empty() && key.first != name) { continue; }
            for (auto const& [at, n] : of.*part) { bytes += n; }
        }
        return bytes;
    }
    [[nodiscard]] static ranges::iterator around(ranges& in, std::uintptr_t at) {
        auto found = in.upper_bound(at);
        if (found == in.begin()) { return in.end(); }
        --found;
        return at - found->first < found->second ? found : in.end();
    }
    [[nodiscard]] static bool overlaps(ranges& in, std::uintptr_t at, std::size_t n) {
        auto const next = in.lower_bound(at);
        return around(in, at) != in.end() || (next != in.end() && next->first < at + n);
    }
    /// Removes [at, at + n) from a set of ranges, of which some may not be there.
    static void cut(ranges& in, std::uintptr_t at, std::size_t n) {
        auto i = in.upper_bound(at);
        if (i != in.begin()) { --i; }
        while (i != in.end() && i->first < at + n) {
            auto const [first, size] = *i;
            if (first + size <= at) {
                ++i;
                continue;
            }
            i = in.erase(i);
            if (first < at) { in[first] = at - first; }
            if (first + size > at + n) { in[at + n] = first + size - at - n; }
        }
    }
    /// Adds [at, at + n) to a set of ranges and merges it with its neighbours.
    static void join(ranges& in, std::uintptr_t at, std::size_t n) {
        cut(in, at, n);
        if (auto const before = around(in, at - 1); before != in.end()) {
            n += before->second;
            at = before->first;
            in.erase(before);
        }
        if (auto const after = in.find(at + n); after != in.end()) {
            n += after->second;
            in.erase(after);
        }
        in[at] = n;
    }
    [[nodiscard]] static bool covers(ranges& in, std::uintptr_t at, std::size_t n) {
        auto const found = around(in, at);
        return found != in.end() && at + n <= found->first + found->second;
    }
    void complain(event const& e, char const* what) {
        static char const* const kinds[]{
            "allocated",     "freed",        "free_refused",   "all_freed",     "chunk_added",
            "chunk_removed", "pages_mapped", "pages_unmapped", "stream_waited", "free_completed",
            "refused",       "retried",      "marked"};
        wrong.push_back(std::string{e.name} + ": " + kinds[static_cast<int>(e.kind)] + " " +
                        std::to_string(reinterpret_cast<std::uintptr_t>(e.memory)) + ", " +
                        std::to_string(e.bytes) + " bytes: " + what);
    }
    void follow(event const& e) {
        books&     of = all_[{e.name, e.resource}];
        auto const at = reinterpret_cast<std::uintptr_t>(e.memory);
        switch (e.kind) {
        case kind::allocated: {
            if (!covers(of.chunks, at, e.bytes)) { complain(e, "not in a chunk"); }
            if (of.paged && !covers(of.pages, at, e.bytes)) { complain(e, "not mapped"); }
            if (overlaps(of.live, at, e.bytes)) { complain(e, "over a live block"); }
            of.live[at] = e.bytes;
            break;
        }
        case kind::freed: {
            auto const block = of.live.find(at);
            if (block == of.live.end() || block->second != e.bytes) {
                bad_frees_.push_back({at, e.bytes});
                break;
            }
            of.live.erase(block);
            break;
        }
        case kind::free_refused:
            for (auto i = bad_frees_.begin();; ++i) {
                if (i == bad_frees_.end()) {
                    complain(e, "a valid free was refused");
                    break;
                }
                if (i->first != at || i->second != e.bytes) { continue; }
                bad_frees_.erase(i);
                break;
            }
            break;
        case kind::all_freed:
            for (auto i = of.live.lower_bound(at); i != of.live.end() && i->first < at + e.bytes;) {
                i = of.live.erase(i);
            }
            break;
        case kind::chunk_added: {
            if (overlaps(of.chunks, at, e.bytes)) { complain(e, "over another chunk"); }
            join(of.chunks, at, e.bytes);
            break;
        }
        case kind::chunk_removed: {
            if (!covers(of.chunks, at, e.bytes)) { complain(e, "not a chunk"); }
            cut(of.chunks, at, e.bytes);
            cut(of.pages, at, e.bytes);
            if (overlaps(of.live, at, e.bytes)) { complain(e, "it has a live block"); }
            break;
        }
        case kind::pages_mapped:
            of.paged = true;
            if (!covers(of.chunks, at, e.bytes)) { complain(e, "not in a chunk"); }
            join(of.pages, at, e.bytes);
            break;
        case kind::pages_unmapped:
            if (overlaps(of.live, at, e.bytes)) { complain(e, "it has a live block"); }
            cut(of.pages, at, e.bytes);
            break;
        default: break;
        }
    }

    vram::detail::lock                                   lock_;
    std::map<std::pair<std::string, void const*>, books> all_;
    std::vector<std::pair<std::uintptr_t, std::size_t>>  bad_frees_;
};

} // namespace doubles
