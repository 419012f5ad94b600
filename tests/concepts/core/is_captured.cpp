// SPDX-License-Identifier: Apache-2.0
#include <vram/concepts/core/is_captured.hpp> // first: the header stands alone

#include <vram/sim/sim.hpp>

#include <doctest/doctest.h>

using namespace vram;

TEST_CASE("is_captured: a stream is captured from begin to end, and the host never") {
    sim_node              node;
    sim_stream            s;
    sim_stream_view const on = s;
    CHECK_FALSE(detail::is_captured<sim_platform>(nullptr));
    CHECK_FALSE(detail::is_captured<sim_platform>(&on));
    sim_graph::begin(s);
    CHECK(detail::is_captured<sim_platform>(&on));
    CHECK_FALSE(detail::is_captured<sim_platform>(nullptr));
    (void)sim_graph::end(s);
    CHECK_FALSE(detail::is_captured<sim_platform>(&on));
}
