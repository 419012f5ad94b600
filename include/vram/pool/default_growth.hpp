// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `default_growth` is the growth policy of a pool if the program names none.

#include <vram/concepts/expandable.hpp> // expandable_resource
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/geometric_growth.hpp>

#include <type_traits> // conditional_t

namespace vram {

/// `exact_growth` if the upstream can extend chunks in place, otherwise `geometric_growth`, which
/// makes fewer and larger chunks.
template <class Upstream>
using default_growth =
    std::conditional_t<expandable_resource<Upstream>, exact_growth, geometric_growth>;

} // namespace vram
