// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `range_concepts` declares the concepts of `std::ranges`, such as `contiguous_range`, the tags of
/// iterators, and `std::default_sentinel_t`.

#include <vram/base/requirements.hpp>

// <ranges> also defines all views, which add about 0.2 s to 3 s that nvcc takes for all of vram,
// and <iterator> includes those of streams. `std::span` needs these declarations itself, and two
// libraries have them in parts that <span> includes.
#include <span> // span
#if !defined __GLIBCXX__ && !defined _LIBCPP_VERSION
#include <iterator> // input_iterator_tag, default_sentinel_t
#include <ranges>   // contiguous_range
#endif
