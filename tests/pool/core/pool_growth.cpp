// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/pool_growth.hpp> // first: the header stands alone

#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/pool/fixed_growth.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <cstddef>

using namespace vram;
using namespace vram::detail;

TEST_CASE("pool_growth: a chunk has the size of the policy, up to the limit, and at least a need") {
    sim_node                              node;
    pool_core<sim_resource, fixed_growth> mr{
        sim_resource{}, {.max_size = 10_MiB}, fixed_growth{.step = 4_MiB}};
    auto const wanted = [&](std::size_t needed) {
        return mr.growth_.wanted(mr, {.asked = needed}, {.needed = needed, .held = 0});
    };
    CHECK(wanted(1_MiB) == 4_MiB);
    CHECK(wanted(5_MiB) == 5_MiB);
    CHECK(wanted(11_MiB) == 11_MiB); // is refused when it is allocated
    void* const p = mr.allocate_sync(7_MiB);
    CHECK(wanted(1_MiB) == 3_MiB); // the rest of the limit
    CHECK(mr.try_deallocate_sync(p, 7_MiB));
}
