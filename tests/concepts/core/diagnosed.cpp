// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/diagnosed.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_resource.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace vram;
using namespace vram::detail;

// The messages themselves are tested by tests/refuse/.
TEST_CASE("diagnosed: a resource passes the checks") {
    CHECK(std::is_same_v<detail::checked_upstream<host_resource>, host_resource>);
    CHECK(std::is_same_v<detail::checked_ordered_upstream<host_resource>, host_resource>);
    CHECK(
        std::is_same_v<detail::check_pair<sim_resource, sim_managed_resource>::type, sim_resource>);
}

TEST_CASE("diagnosed: a stream of another platform is recognised, as a view and as an owner") {
    CHECK(detail::stream_of_another_platform<sim_stream, host_platform>);
    CHECK(detail::stream_of_another_platform<sim_stream_view, host_platform>);
    CHECK_FALSE(detail::stream_of_another_platform<sim_stream, sim_platform>);
    CHECK_FALSE(detail::stream_of_another_platform<int, sim_platform>);
}
