// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `kept_by_value` is the type in which a loader keeps its source, and an unloader its sink.

#include <vram/base/requirements.hpp>

#include <concepts>    // constructible_from
#include <type_traits> // conditional_t, decay_t

namespace vram {
namespace detail {

/// The type in which a class stores a constructor argument `Object&&`: by value, or by reference
/// for an lvalue of a type without a copy constructor.
template <class Object>
using kept_by_value = std::conditional_t<std::constructible_from<std::decay_t<Object>, Object>,
                                         std::decay_t<Object>, Object>;

} // namespace detail
} // namespace vram
