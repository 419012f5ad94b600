// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// `range_concepts` declares the concepts of `std::ranges`, such as `contiguous_range`, the tags of
/// iterators, and `std::default_sentinel_t`.

#include <vram/base/requirements.hpp>

// In libstdc++ and libc++, <span> also declares what vram needs from <ranges> and <iterator>. nvcc
// compiles each file 0.2 s faster with <span> than with those two headers.
#include <span> // span
#if !defined __GLIBCXX__ && !defined _LIBCPP_VERSION
#include <iterator> // input_iterator_tag, default_sentinel_t
#include <ranges>   // contiguous_range
#endif
