// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/chunk_growth.hpp> // first: the header stands alone

#include <vram/pool/core/pool_core.hpp>
#include <vram/pool/exact_growth.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;
using namespace vram::detail;

namespace {

template <class Upstream>
using exact_core = pool_core<Upstream, exact_growth>;

} // namespace

TEST_CASE("chunk_growth: whole chunks and pages are its models") {
    CHECK(chunk_growth<whole_chunks<sim_resource>, exact_core<sim_resource>>);
    CHECK(chunk_growth<paged_chunks<sim_virtual_resource>, exact_core<sim_virtual_resource>>);
    CHECK_FALSE(chunk_growth<int, exact_core<sim_resource>>);
}
