// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/monotonic_core.hpp> // first: the header stands alone

#include <vram/pool/exact_growth.hpp>
#include <vram/pool/geometric_growth.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

// The functions for users are tested in monotonic.cpp.

using namespace vram;
using namespace vram::detail;

template class vram::detail::monotonic_core<sim_resource, geometric_growth>;
template class vram::detail::monotonic_core<sim_async_resource, exact_growth>;

TEST_CASE("monotonic_core: put returns false for an address without a block") {
    sim_node                                         node;
    sim_stream                                       s;
    monotonic_core<sim_async_resource, exact_growth> mr{sim_async_resource{}, {}, {}};
    int                                              foreign = 0;
    void* const                                      p       = mr.get_on(s, 1000, 256);
    CHECK_FALSE(mr.put(&foreign, 4, nullptr));
    CHECK(mr.put(nullptr, 4, nullptr)); // there is nothing to free
    CHECK(mr.usage().live == 1000);
    CHECK(mr.put_on(s, p, 1000));
    CHECK_FALSE(mr.put_on(s, p, 1000)); // no byte is live
    CHECK(mr.usage().live == 0);
    CHECK(mr.get<false>(0, 256, nullptr) == nullptr);
}
