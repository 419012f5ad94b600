// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interval_map` assigns a value to each position of a range, stored as intervals of equal values.

#include <vram/base/requirements.hpp>

#include <algorithm> // max, min
#include <cstddef>   // size_t
#include <iterator>  // next, prev
#include <map>       // map
#include <utility>   // move

namespace vram {
namespace detail {

/// A map from the positions [0, size) to values, stored as disjoint intervals. At first all
/// positions are one interval; an interval is split only if a part of it gets another value.
///
/// Failure   A split throws `std::bad_alloc` and leaves the values unchanged.
/// Threads   One thread at a time.
/// Cost      A lookup is O(log intervals). A split allocates one node.
template <class Value>
class interval_map {
public:
    interval_map() = default;
    interval_map(std::size_t size, Value whole) : size_{size} {
        if (size != 0) { pieces_.emplace(0, std::move(whole)); }
    }

    /// Splits the intervals at `first` and `last`, and calls `change(begin, end, value)` for each
    /// interval between these positions. `change` may modify `value`.
    template <class Change>
    void change(std::size_t first, std::size_t last, Change change) {
        if (first >= last || last > size_) { return; }
        auto at = split(first);
        auto to = last == size_ ? pieces_.end() : split(last);
        for (; at != to; ++at) {
            auto const next = std::next(at);
            change(at->first, next == pieces_.end() ? size_ : next->first, at->second);
        }
    }

    /// Calls `see(begin, end, value)` for the part in [first, last) of each interval.
    template <class See>
    void visit(std::size_t first, std::size_t last, See see) const {
        if (first >= last || last > size_) { return; }
        for (auto at = std::prev(pieces_.upper_bound(first));
             at != pieces_.end() && at->first < last;) {
            auto const        value = at++;
            std::size_t const end   = at == pieces_.end() ? size_ : at->first;
            see(std::max(first, value->first), std::min(last, end), value->second);
        }
    }

    /// Assigns `value` to all positions of [first, last), which become one interval.
    void assign(std::size_t first, std::size_t last, Value value) {
        if (first >= last || last > size_) { return; }
        auto const at = split(first);
        auto const to = last == size_ ? pieces_.end() : split(last);
        at->second    = std::move(value);
        pieces_.erase(std::next(at), to);
    }

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] std::size_t pieces() const noexcept { return pieces_.size(); }

    [[nodiscard]] Value const& at(std::size_t position) const {
        return std::prev(pieces_.upper_bound(position))->second;
    }

private:
    using iterator = typename std::map<std::size_t, Value>::iterator;

    /// Returns the interval that starts at `position`, after splitting the one around it if needed.
    iterator split(std::size_t position) {
        auto const after  = pieces_.upper_bound(position);
        auto const around = std::prev(after);
        if (around->first == position) { return around; }
        return pieces_.emplace_hint(after, position, around->second);
    }

    std::size_t size_ = 0;
    /// The value of each interval, by the interval's start. An interval ends at the next start.
    std::map<std::size_t, Value> pieces_;
};

} // namespace detail
} // namespace vram
