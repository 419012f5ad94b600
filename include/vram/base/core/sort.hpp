// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `sort` sorts an array, like `std::sort`.

#include <vram/base/requirements.hpp>

#include <cstddef>
#include <utility>

namespace vram {
namespace detail {

/// Moves the element `at[hole]` down a binary heap as long as one of its children sorts after it.
/// `before(a, b)` returns true if `a` sorts before `b`.
template <class Element, class Before>
void sift_down(Element* at, std::size_t hole, std::size_t count, Before const& before) {
    Element moved = std::move(at[hole]);
    for (std::size_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && before(at[child], at[child + 1])) { ++child; }
        if (!before(moved, at[child])) { break; }
        at[hole] = std::move(at[child]);
        hole     = child;
    }
    at[hole] = std::move(moved);
}

/// Sorts `count` elements by heapsort. `before(a, b)` returns true if `a` comes before `b`. Equal
/// elements may change places.
template <class Element, class Before>
void sort(Element* at, std::size_t count, Before const& before) {
    for (std::size_t i = count / 2; i-- != 0;) { sift_down(at, i, count, before); }
    for (std::size_t end = count; end-- > 1;) {
        std::swap(at[0], at[end]);
        sift_down(at, 0, end, before);
    }
}

} // namespace detail
} // namespace vram
