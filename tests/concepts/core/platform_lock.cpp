// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/platform_lock.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

#include <concepts>

using namespace vram;
using namespace vram::detail;

static_assert(std::same_as<platform_lock<host_platform>, biased_lock>);
static_assert(std::same_as<platform_lock<sim_platform>, sim_lock>);

TEST_CASE("platform_lock: the guard of either kind can be unlocked temporarily") {
    platform_lock<host_platform> const plain;
    auto                               held = plain.hold();
    held.unlock();
    held.lock();
    CHECK(held.owns_lock());
    sim_node                          node;
    platform_lock<sim_platform> const seen;
    auto                              also = seen.hold();
    also.unlock();
    CHECK_FALSE(also.owns_lock());
}
