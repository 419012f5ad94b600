// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/core/cuda_ranges.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <type_traits>

static_assert(std::is_empty_v<vram::detail::cuda_ranges>);

#ifdef VRAM_NVTX
TEST_CASE("cuda_ranges: ranges and names work with and without a profiler") {
    vram::detail::cuda_ranges::name_thread("test");
    auto const range = vram::detail::cuda_ranges::begin_range("range");
    vram::detail::cuda_ranges::end_range(range);
}
#endif
