// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/batched_copies.hpp> // first: the header stands alone

#include <vram/sim/sim_platform.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

TEST_CASE("batched_copies: a platform has copy_batch or not") {
    CHECK(vram::batched_copies<vram::sim_platform>);
    CHECK_FALSE(vram::batched_copies<vram::host_platform>);
}
