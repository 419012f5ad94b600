// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `range_concepts` declares the concepts of `std::ranges`, such as `contiguous_range`, the tags of
/// iterators, and `std::default_sentinel_t`.

#include <vram/base/requirements.hpp>

// <ranges> also defines all views, and <iterator> those of streams, which add a tenth to the time
// that nvcc takes for all of vram. `std::span` needs these declarations itself, and two libraries
// have them in parts that <span> includes.
#include <span> // span
#if !defined __GLIBCXX__ && !defined _LIBCPP_VERSION
#include <iterator> // input_iterator_tag, default_sentinel_t
#include <ranges>   // contiguous_range
#endif
