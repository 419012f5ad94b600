// SPDX-License-Identifier: Apache-2.0
#include <vram/cuda/cuda_ranges.hpp> // first: the header stands alone

#include <doctest/doctest.h>

#include <type_traits>

static_assert(std::is_empty_v<vram::cuda_ranges>);

#ifdef VRAM_NVTX
TEST_CASE("cuda_ranges: ranges and names work with and without a profiler") {
    vram::cuda_ranges::name_thread("test");
    auto const range = vram::cuda_ranges::begin_range("range");
    vram::cuda_ranges::end_range(range);
}
#endif
