// SPDX-License-Identifier: Apache-2.0
#include <vram/pool/core/arena_core.hpp> // first: the header stands alone

#include <vram/pool/arena.hpp>
#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

#include <type_traits>

// The functions for users are tested in arena.cpp.

using namespace vram;
using namespace vram::detail;

template class vram::detail::arena_core<sim_resource, geometric_growth>;
template class vram::detail::arena_core<sim_async_resource, geometric_growth>;

TEST_CASE("arena_core: an arena is its core, and has no data of its own") {
    CHECK(std::is_base_of_v<arena_core<sim_resource, geometric_growth>, arena<sim_resource>>);
    CHECK(sizeof(arena<sim_resource>) == sizeof(arena_core<sim_resource, geometric_growth>));
}
