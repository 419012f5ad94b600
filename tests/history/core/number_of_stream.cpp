// SPDX-License-Identifier: Apache-2.0
#include <vram/history/core/number_of_stream.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>
#include <vram/source/host_platform.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("number_of_stream: the id, or 0 if the platform knows none") {
    sim_node const node;
    sim_stream     s;
    CHECK(detail::number_of_stream(s.view()) == s.id());
    CHECK(detail::number_of_stream(host_platform::stream{}) == 0);
    CHECK(detail::number_of_stream(7) == 0);
}
