// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/pool_base.hpp> // first: the header must stand alone

#include <vram/pool/geometric_growth.hpp>
#include <vram/pool/pool.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <type_traits>

// Its behaviour is tested in pool.cpp and paged_base.cpp.

using namespace vram;

template class vram::pool_base<sim_resource, geometric_growth>;
template class vram::pool_base<sim_virtual_resource, exact_growth, true>;

TEST_CASE("pool_base: each kind of upstream has the growth that it supports") {
    using growth_policy = geometric_growth;
    CHECK(std::is_base_of_v<pool_base<sim_resource, growth_policy>, pool<sim_resource>>);
    CHECK(std::is_base_of_v<paged_base<sim_virtual_resource, exact_growth>,
                            pool<sim_virtual_resource>>);
}
