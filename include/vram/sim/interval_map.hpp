// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `interval_map` gives every position of a line a value, and keeps equal neighbours as one.

#include <vram/base/requirements.hpp> // C++20

#include <cstddef>  // size_t
#include <iterator> // next, prev
#include <map>      // map
#include <utility>  // move

namespace vram {

/// Values over [0, size): one piece at first, split only where somebody treats a part differently.
///
/// Failure   `std::bad_alloc` while a piece is split; the values are as before
/// Threads   one at a time
/// Cost      O(log pieces) to find, one node for each split
template <class Value>
class interval_map {
public:
    interval_map() = default;
    interval_map(std::size_t size, Value whole) : size_{size} {
        if (size != 0) { pieces_.emplace(0, std::move(whole)); }
    }

    /// Calls `change(begin, end, value)` for every piece of [first, last), split at both ends.
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

    /// Makes [first, last) one piece with `value`.
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

    /// The piece that starts at `position`, cut off the one around it where there was none.
    iterator split(std::size_t position) {
        auto const after  = pieces_.upper_bound(position);
        auto const around = std::prev(after);
        if (around->first == position) { return around; }
        return pieces_.emplace_hint(after, position, around->second);
    }

    std::size_t                  size_ = 0;
    std::map<std::size_t, Value> pieces_; ///< by where they start; each ends where the next begins
};

} // namespace vram
