// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/default_growth.hpp> // first: the header stands alone

#include <vram/layer/limiting.hpp>
#include <vram/layer/stream_ordered.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim_resource.hpp>
#include <vram/sim/sim_virtual_resource.hpp>

#include <doctest/doctest.h>

#include <concepts>

using namespace vram;

static_assert(std::same_as<default_growth<sim_virtual_resource>, exact_growth>);
static_assert(std::same_as<default_growth<sim_resource>, geometric_growth>);

// A layer in between hides the power, and the pool's chunks must be large again.
static_assert(std::same_as<default_growth<limiting<sim_virtual_resource>>, geometric_growth>);
static_assert(std::same_as<default_growth<stream_ordered<sim_virtual_resource>>, geometric_growth>);

static_assert(std::same_as<pool<sim_virtual_resource>, pool<sim_virtual_resource, exact_growth>>);
static_assert(std::same_as<pool<sim_resource>, pool<sim_resource, geometric_growth>>);

TEST_CASE("default_growth: chunks that grow in place grow as needed, and others by more") {
    CHECK(default_growth<sim_virtual_resource>{}({.needed = 2_MiB}) == 2_MiB);
    CHECK(default_growth<sim_resource>{}({.needed = 2_MiB}) > 2_MiB);
}
