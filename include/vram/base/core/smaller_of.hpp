// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `smaller_of` and `larger_of` are `std::min` and `std::max` of two values.

#include <vram/base/requirements.hpp>

namespace vram {
namespace detail {

// The functions of this file replace <algorithm>, which adds a third of a second to the time that
// nvcc takes for a file.

/// Returns the smaller value, and `a` if they are equal.
template <class Type>
[[nodiscard]] constexpr Type smaller_of(Type a, Type b) noexcept {
    return b < a ? b : a;
}

/// Returns the larger value, and `a` if they are equal.
template <class Type>
[[nodiscard]] constexpr Type larger_of(Type a, Type b) noexcept {
    return a < b ? b : a;
}

} // namespace detail
} // namespace vram
