// SPDX-License-Identifier: Apache-2.0
#include <vram/interop/core/dlpack_export.hpp> // first: the header stands alone

#include <vram/handle/array.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

namespace dlpack_export_tests {

using namespace vram::detail;
using shape = std::vector<std::int64_t>;

static_assert(gives_memory<vram::array<float, vram::host_resource>>);
static_assert(gives_memory<vram::buffer<vram::host_resource>>);
static_assert(!gives_memory<std::vector<float>> && !gives_memory<int>);

TEST_CASE("dlpack_export: strides follow from the extents") {
    CHECK(with_strides({6}, 6) == shape{6, 1});
    CHECK(with_strides({2, 3, 4}, 24) == shape{2, 3, 4, 12, 4, 1});
    CHECK(with_strides({4, 1, 1}, 4) == shape{4, 1, 1, 1, 1, 1});
    CHECK(with_strides({0, 9}, 0) == shape{0, 9, 1, 1});
    CHECK_THROWS_AS((void)with_strides({2, 3}, 7), vram::layout_error);
}

} // namespace dlpack_export_tests
