// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `default_growth` is the growth policy of a pool that names none.

#include <vram/concepts/expandable.hpp>   // expandable_resource
#include <vram/pool/exact_growth.hpp>     // exact_growth
#include <vram/pool/geometric_growth.hpp> // geometric_growth

#include <type_traits> // conditional_t

namespace vram {

/// Chunks that can grow at their ends take what is needed each time; others are made larger than
/// that, so that there are not too many of them.
template <class Upstream>
using default_growth =
    std::conditional_t<expandable_resource<Upstream>, exact_growth, geometric_growth>;

} // namespace vram
