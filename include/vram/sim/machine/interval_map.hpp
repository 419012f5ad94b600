// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interval_map` assigns a value to each position of a range, stored as intervals of equal values.

#include <vram/base/requirements.hpp>

#include <algorithm> // max, min
#include <cstddef>
#include <iterator> // next, prev
#include <map>      // map
#include <utility>

namespace vram {
namespace detail {

/// A map from the positions 0 to `size - 1` to values, stored as disjoint intervals of equal
/// values. At first all positions are one interval.
///
/// Failure   `change` and `assign` throw `std::bad_alloc` and leave the values unchanged.
/// Cost      A lookup is O(log intervals).
template <class Value>
class interval_map {
public:
    interval_map() = default;
    interval_map(std::size_t size, Value whole) : size_{size}, first_{std::move(whole)} {}

    /// Makes all positions of a map of `size` positions one interval with the value `whole`.
    void reset(std::size_t size, Value whole) {
        size_    = size;
        visited_ = 0;
        work_    = 0;
        first_   = std::move(whole);
        if (!rest_.empty()) { rest_.clear(); }
    }
    void swap(interval_map& other) noexcept {
        std::swap(size_, other.size_);
        std::swap(visited_, other.visited_);
        std::swap(work_, other.work_);
        std::swap(first_, other.first_);
        rest_.swap(other.rest_);
    }

    /// Splits the intervals at `first` and `last`, and calls `change(begin, end, value)` for each
    /// interval between these positions. `change` may modify `value`.
    template <class Change>
    void change(std::size_t first, std::size_t last, Change change) {
        if (first >= last || last > size_) { return; }
        iterator       at = first == 0 ? iterator{} : split(first);
        iterator const to = last == size_ ? rest_.end() : split(last);
        if (first == 0) {
            at = rest_.begin();
            ++visited_;
            change(first, begin_of(at), first_);
        }
        for (; at != to; ++at) {
            ++visited_;
            change(at->first, begin_of(std::next(at)), at->second);
        }
    }

    /// Calls `see(begin, end, value)` for the part of each interval that lies in [first, last).
    template <class See>
    void visit(std::size_t first, std::size_t last, See see) const {
        if (first >= last || last > size_) { return; }
        auto at = rest_.upper_bound(first);
        if (at == rest_.begin()) {
            see(first, std::min(last, begin_of(at)), first_);
        } else {
            --at;
        }
        while (at != rest_.end() && at->first < last) {
            auto const value = at++;
            see(std::max(first, value->first), std::min(last, begin_of(at)), value->second);
        }
    }

    /// Assigns `value` to all positions of [first, last), which become one interval.
    void assign(std::size_t first, std::size_t last, Value value) {
        if (first >= last || last > size_) { return; }
        iterator const at                  = first == 0 ? iterator{} : split(first);
        iterator const to                  = last == size_ ? rest_.end() : split(last);
        (first == 0 ? first_ : at->second) = std::move(value);
        rest_.erase(first == 0 ? rest_.begin() : std::next(at), to);
    }

    /// Returns true if `compact` should be called, because the map has many intervals, or `change`
    /// has visited many since the last `compact`.
    [[nodiscard]] bool compact_is_due() const noexcept {
        return visited_ > 64 + std::max(pieces(), work_) || pieces() > 64 + 2 * work_;
    }

    /// Calls `simplify(value)` for the value of each interval. Then merges neighbouring intervals
    /// if `same(a, b)` is true for their values. `simplify` may change the value. It returns the
    /// expected work of the next `simplify` for this value, as a number.
    template <class Simplify, class Same>
    void compact(Simplify simplify, Same same) {
        std::size_t  work   = simplify(first_);
        Value const* before = &first_;
        for (iterator at = rest_.begin(); at != rest_.end();) {
            std::size_t const of_value = simplify(at->second);
            if (same(*before, at->second)) {
                at = rest_.erase(at);
            } else {
                work += of_value;
                before = &at->second;
                ++at;
            }
        }
        visited_ = 0;
        work_    = work;
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t pieces() const noexcept { return size_ == 0 ? 0 : 1 + rest_.size(); }

    [[nodiscard]] Value const& at(std::size_t position) const {
        auto const after = rest_.upper_bound(position);
        return after == rest_.begin() ? first_ : std::prev(after)->second;
    }

private:
    using intervals = std::map<std::size_t, Value>;
    using iterator  = typename intervals::iterator;

    [[nodiscard]] std::size_t begin_of(typename intervals::const_iterator at) const {
        return at == rest_.end() ? size_ : at->first;
    }
    /// Returns the interval that starts at `position`, which must not be 0. If there is none,
    /// splits the interval that contains `position`.
    iterator split(std::size_t position) {
        auto const after = rest_.upper_bound(position);
        if (after == rest_.begin()) { return rest_.emplace_hint(after, position, first_); }
        auto const around = std::prev(after);
        if (around->first == position) { return around; }
        return rest_.emplace_hint(after, position, around->second);
    }

    std::size_t size_ = 0;
    /// Number of intervals that `change` has visited since the last `compact`.
    std::size_t visited_ = 0;
    /// Expected work of the next `compact`: the sum of the results of `simplify` for the intervals
    /// that remained. If this sum is larger, `compact_is_due` returns true later.
    std::size_t work_ = 0;
    Value       first_{}; ///< the value of the interval that starts at 0
    /// The values of the intervals that do not start at 0, by their start. Each ends where the next
    /// one starts.
    intervals rest_;
};

} // namespace detail
} // namespace vram
