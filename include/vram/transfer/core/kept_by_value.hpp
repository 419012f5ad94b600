// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `kept_by_value` is the type in which a loader keeps its source, and an unloader its sink.

#include <vram/base/requirements.hpp>

#include <concepts>    // constructible_from
#include <type_traits> // conditional_t, decay_t

namespace vram {
namespace detail {

/// The type of the member that stores a constructor argument `Object&&`: a value, or a reference to
/// an lvalue that cannot be copied.
template <class Object>
using kept_by_value = std::conditional_t<std::constructible_from<std::decay_t<Object>, Object>,
                                         std::decay_t<Object>, Object>;

} // namespace detail
} // namespace vram
