// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/block_request.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

template struct vram::detail::block_request<sim_stream_view>;

TEST_CASE("block_request: the size is rounded once, and an impossible size is recognised") {
    using request = block_request<int>;
    CHECK(request{.asked = 1}.bytes == 256);
    CHECK(request{.asked = 257}.bytes == 512);
    CHECK(request{.asked = 1}.possible());
    CHECK_FALSE(request{.asked = unsatisfiable}.possible());
    CHECK_FALSE(request{.asked = unsatisfiable - 300}.possible());
    CHECK(request{.asked = 1, .alignment = 1}.chunk_alignment() == 256);
    CHECK(request{.asked = 1, .alignment = 4096}.chunk_alignment() == 4096);
}
