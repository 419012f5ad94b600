// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sim_units` is a set of units of address space that physical memory backs.

#include <vram/base/requirements.hpp>

#include <algorithm> // max, min
#include <cstddef>
#include <iterator> // prev
#include <map>      // map
#include <utility>

namespace vram {
namespace detail {

/// The numbers of the units of an address space that physical memory backs. Stored as runs of
/// consecutive numbers.
///
/// Failure   Only `prepare` throws, `std::bad_alloc`.
/// Cost      O(log runs), and O(1) for each run that a change joins. `count` costs O(log runs) for
///           each run in its argument.
class sim_units {
public:
    /// The units from `begin` on that are less than `end`.
    struct run {
        std::size_t begin = 0, end = 0;

        [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
    };

    /// Allocates the host memory that `changes` calls of `add` and `remove` need.
    void prepare(std::size_t changes) {
        while (idle_.size() < changes) { idle_.emplace(idle_.size(), 0); }
    }

    /// Adds the units of `r`, of which some may be in the set. Needs a call of `prepare` before.
    void add(run r) noexcept {
        auto at = runs_.upper_bound(r.begin);
        if (at != runs_.begin() && std::prev(at)->second >= r.begin) { --at; }
        while (at != runs_.end() && at->first <= r.end) {
            r.begin = std::min(r.begin, at->first);
            r.end   = std::max(r.end, at->second);
            size_ -= at->second - at->first;
            keep(runs_.extract(at++));
        }
        insert(r);
    }
    /// Removes the units of `r`, all of which are in the set. Needs a call of `prepare` before.
    void remove(run r) noexcept {
        auto const        at    = std::prev(runs_.upper_bound(r.begin));
        std::size_t const begin = at->first, end = at->second;
        size_ -= end - begin;
        keep(runs_.extract(at));
        if (begin < r.begin) { insert({begin, r.begin}); }
        if (r.end < end) { insert({r.end, end}); }
    }
    void clear() noexcept {
        runs_.clear();
        size_ = 0;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; } ///< number of units
    /// Returns true if all units of `r` are in the set.
    [[nodiscard]] bool contains(run r) const noexcept { return last_in(r).size() == r.size(); }
    /// Returns the number of units of `r` that are in the set.
    [[nodiscard]] std::size_t count(run r) const noexcept {
        std::size_t sum = 0;
        for (run last = last_in(r); last.size() != 0; last = last_in({r.begin, last.begin})) {
            sum += last.size();
        }
        return sum;
    }
    /// Returns the consecutive units at the highest place within `r` that are in the set; an empty
    /// run if there are none.
    [[nodiscard]] run last_in(run r) const noexcept {
        if (r.begin >= r.end) { return {}; }
        auto at = runs_.lower_bound(r.end);
        if (at == runs_.begin() || (--at)->second <= r.begin) { return {}; }
        return {std::max(r.begin, at->first), std::min(r.end, at->second)};
    }

private:
    using runs = std::map<std::size_t, std::size_t>;

    void insert(run r) noexcept {
        auto node     = idle_.extract(std::prev(idle_.end()));
        node.key()    = r.begin;
        node.mapped() = r.end;
        runs_.insert(std::move(node));
        size_ += r.size();
    }
    void keep(runs::node_type node) noexcept {
        node.key() = idle_.size();
        idle_.insert(std::move(node));
    }

    runs        runs_; ///< the end of each run, by its begin
    runs        idle_; ///< nodes that store no run, for later changes
    std::size_t size_ = 0;
};

} // namespace detail
} // namespace vram
